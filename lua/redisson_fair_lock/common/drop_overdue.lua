-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/ends_of
-- include: redisson_fair_lock/common/alive
-- include: redisson_fair_lock/common/call
-- drop_overdue(now): removes the waiters at the head whose time is over, and tells them: a Java
-- waiter never prolongs its time, so it may live, and queues again. Returns the head, or false.
local function drop_overdue(now)
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head or ends_of(head) > now then
      return head
    end
    call(head)
    redis.call('ZREM', timeouts, head)
    redis.call('ZREM', alive, head)
    redis.call('LPOP', queue)
  end
end
