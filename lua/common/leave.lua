-- include: common/remove_waiter

-- leave(grant, gone_ms, other_queue): removes a grant that ends, or a waiter that gives up, from
-- its queue or queues, and leaves a tombstone so that no late request brings it back. Call this
-- before the next owner is chosen. Returns true if it was queued.
local function leave(grant, gone_ms, other_queue)
  redis.call('HEXISTS', KEYS[3], grant)  -- refuses another type before the first write
  local was_queued = other_queue and redis.call('ZREM', other_queue, grant) == 1
  was_queued = remove_waiter(grant) or was_queued
  if gone_ms ~= '0' and not redis.call('SET', KEYS[5], '', 'PX', gone_ms, 'NX') then
    redis.call('PEXPIRE', KEYS[5], gone_ms, 'GT')  -- a tombstone that lasts longer stays
  end
  return was_queued
end
