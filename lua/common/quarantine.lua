-- include: common/probation

-- quarantine(): returns for how many more ms nothing may be granted (0: there is no
-- quarantine), because the server was promoted and leases of its predecessor may not be over. The
-- other results are those of probation(). Each promotion renews the replication id, which
-- identifies the primary epoch.
--
-- KEYS   the last one is removed: '<replication id> <until_ms> <quarantine_ms>'
-- ARGV   the last two are removed: the id that the caller knows, and quarantine_ms
local function quarantine()
  local epoch_key = table.remove(KEYS)
  local quarantine_ms, known = table.remove(ARGV), table.remove(ARGV)
  return probation(epoch_key, known, quarantine_ms, function()
    return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
  end, {'quarantine', 'quarantine'})
end
