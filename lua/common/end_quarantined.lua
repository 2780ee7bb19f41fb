-- include: common/quarantine

-- end_quarantined(queues): before a script that ends a grant, of which these KEYS are the queues:
-- as long as there is a quarantine, or others count another one, what ends is handed to no waiter:
-- the script finds its queues empty. Waiters ask again when it is over. Answers until when
-- the last quarantine was, in ms, if that is known.
local function end_quarantined(queues)
  local quarantined_ms, refused, until_ms = quarantine(true)
  if not refused and quarantined_ms == 0 then
    return until_ms
  end
  redis.call('HDEL', KEYS[3], ARGV[1])
  for _, i in ipairs(queues) do
    redis.call('ZREM', KEYS[i], ARGV[1])
    KEYS[i] = KEYS[i] .. '.none'
  end
  -- Nor is its client queued again: it will ask by itself.
  for i = #ARGV, 4, -1 do
    ARGV[i] = nil
  end
end
