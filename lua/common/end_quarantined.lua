-- include: common/quarantine

-- end_quarantined(queues): runs before a script that ends a grant. `queues` are the indexes of its
-- queues in KEYS. During a quarantine, or if other clients use another quarantine, the script then
-- finds its queues empty and hands nothing over. Waiters ask again when the quarantine is over.
-- Returns when the last quarantine ended, in ms, if that is known.
local function end_quarantined(queues)
  local quarantined_ms, refused, until_ms = quarantine()
  if not refused and quarantined_ms == 0 then
    return until_ms
  end
  redis.call('HDEL', KEYS[3], ARGV[1])
  for _, i in ipairs(queues) do
    redis.call('ZREM', KEYS[i], ARGV[1])
    KEYS[i] = KEYS[i] .. '.none'
  end
  -- The client is not queued again either. It asks by itself later.
  for i = #ARGV, 4, -1 do
    ARGV[i] = nil
  end
end
