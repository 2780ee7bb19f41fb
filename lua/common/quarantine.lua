-- Stands before a script whose client asks for a quarantine: after a server was promoted, nobody is
-- granted anything until every lease that the one before it can have granted is over. How much
-- longer that is, says quarantined_ms: 0, it is over.
--
-- Who reigns is known by the id of the server's replication stream, which each promotion renews.
-- The caller tells the id that it knows; where the key has another, the server itself is asked.
--
-- `ends_hold` is set before.
--
-- KEYS   the last one is taken away: '<replication id> <until_ms> <quarantine_ms>'
-- ARGV   so are the last two: the id that the caller knows, and quarantine_ms
local quarantined_ms
do
  local reign_key = table.remove(KEYS)
  local quarantine_ms, known = table.remove(ARGV), table.remove(ARGV)
  local id, until_ms, stored_ms = string.match(redis.call('GET', reign_key) or '',
    '^(%x+) (%d+) (%d+)$')
  if id and stored_ms ~= quarantine_ms then
    return redis.error_reply('REFUSED this program asks for a quarantine of ' .. quarantine_ms ..
      ' ms, and others that use this server for one of ' .. stored_ms ..
      ' ms; say the same everywhere (quarantine= in the URL)')
  end
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  if id ~= known then
    local true_id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
    if id ~= true_id then
      until_ms = string.format('%.0f', now_ms + quarantine_ms)
    end
    if ends_hold then
      redis.call('PEXPIRE', reign_key, '2592000000')  -- opens the way where memory is full
    end
    redis.call('SET', reign_key, true_id .. ' ' .. until_ms .. ' ' .. quarantine_ms, 'PX',
      '2592000000')
  end
  quarantined_ms = math.max(0, until_ms - now_ms)
end
