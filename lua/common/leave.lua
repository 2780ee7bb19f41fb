-- include: common/remove_waiter

-- leave(hold, gone_ms, other_queue): takes a grant that ends, or a waiter that gives up, off the
-- queue, or the two queues, before the next owner is chosen, and sees to it that no late request
-- brings it back. Answers whether it was queued.
local function leave(hold, gone_ms, other_queue)
  redis.call('HEXISTS', KEYS[3], hold)  -- refuses another type before the first write
  local was_queued = other_queue and redis.call('ZREM', other_queue, hold) == 1
  was_queued = remove_waiter(hold) or was_queued
  if gone_ms ~= '0' then
    redis.call('SET', KEYS[5], '', 'PX', gone_ms)
  end
  return was_queued
end
