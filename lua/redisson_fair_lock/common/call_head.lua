-- include: redisson_fair_lock/common/drop_overdue
-- include: redisson_lock/common/now_ms
-- include: redisson_fair_lock/common/call
-- call_head(): the lock is free. Tells the first waiter.
local function call_head()
  local head = drop_overdue(now_ms())
  if head then
    call(head)
  end
end
