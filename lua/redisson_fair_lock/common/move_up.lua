-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/wait_ms
-- move_up(waiters): they no longer wait for this client.
local function move_up(waiters)
  for _, waiter in ipairs(waiters) do
    redis.call('ZINCRBY', timeouts, -wait_ms, waiter)
  end
end
