-- include: common/probation

-- quarantine(opens_the_way): for how many ms more nothing may be granted; 0: there is no
-- quarantine. After a server was promoted there is one, until every lease that the one before it
-- can have granted is over. And an error, to be replied, where others count another quarantine;
-- else nil, and until when the last one is, in ms.
--
-- The primary epoch is known by the id of the server's replication stream, which each promotion
-- renews.
--
-- KEYS   the last one is taken away: '<replication id> <until_ms> <quarantine_ms>'
-- ARGV   so are the last two: the id that the caller knows, and quarantine_ms
local function quarantine(opens_the_way)
  local epoch_key = table.remove(KEYS)
  local quarantine_ms, known = table.remove(ARGV), table.remove(ARGV)
  return probation(epoch_key, known, quarantine_ms, function()
    return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
  end, {'quarantine', 'quarantine'}, opens_the_way)
end
