-- Before release, cancel and force_release: as long as there is a quarantine, what ends is handed
-- to nobody: the script finds its queues empty. Whoever is queued asks again when it is over.
-- include: common/quarantine
local quarantined_ms, refused = quarantine(true)
if refused then
  return refused
elseif quarantined_ms > 0 then
  redis.call('HDEL', KEYS[3], ARGV[1])
  for i, key in ipairs(KEYS) do
    if i == 2 or i > 4 and
        (string.sub(key, -11) == ':rw.writers' or string.sub(key, -13) == ':simple.queue') then
      redis.call('ZREM', key, ARGV[1])
      KEYS[i] = key .. '.none'
    end
  end
  -- Nor is its client queued again: it will ask by itself.
  for i = #ARGV, 4, -1 do
    ARGV[i] = nil
  end
end
