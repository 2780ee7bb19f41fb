-- include: common/remove_waiter

-- leave(hold, gone_ms): takes a hold that owns nothing off the queue, and sees to it that no late
-- request brings it back. Answers whether it was queued.
local function leave(hold, gone_ms)
  redis.call('HEXISTS', KEYS[3], hold)  -- refuses another type before the first write
  local was_queued = remove_waiter(hold)
  if gone_ms ~= '0' then
    redis.call('SET', KEYS[5], '', 'PX', gone_ms)
  end
  return was_queued
end
