-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/ends_of
-- include: redisson_fair_lock/common/call
-- include: redisson_fair_lock/common/move_up
-- drop_overdue(now): removes up to 64 waiters at the head whose time is over, and tells them: a
-- Java waiter never prolongs its time, so it may live, and queues again. Returns the head, or
-- false; and whether its time is over, too: then the caller's reply is followed by a note to go on.
local function drop_overdue(now)
  for dropped = 0, 64 do
    local head = redis.call('LINDEX', queue, 0)
    local overdue = head and ends_of(head) <= now
    if not overdue or dropped == 64 then
      if dropped > 0 then
        move_up(now)
      end
      return head, overdue
    end
    call(head)
    redis.call('ZREM', timeouts, head)
    redis.call('ZREM', alive, head)
    redis.call('LPOP', queue)
  end
end
