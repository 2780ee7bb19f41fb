-- include: redisson_fair_lock/common/drop_overdue
-- include: redisson_lock/common/now_ms
-- call_head(): the lock is free. Tells the first waiter. Returns true if it is not yet known which
-- one that is: the caller's reply asks for another call.
local function call_head()
  local head, overdue = drop_overdue(now_ms())
  if head and not overdue then
    call(head)
  end
  return overdue
end
