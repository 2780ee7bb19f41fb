-- include: redisson_lock/common/may_wait
-- wait_for(terms, retry_after_ms): the reply to a request that was not granted. The lock has no
-- queue: its waiter asks again when a message comes, or after that time.
local function wait_for(terms, retry_after_ms)
  if not may_wait(terms) then
    return 'busy ' .. retry_after_ms
  end
  return 'queued ' .. retry_after_ms .. ' 0 0'
end
