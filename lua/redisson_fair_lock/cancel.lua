-- Gives up a grant or its place in the queue. If the lock is free then, tells the first waiter.
--
-- KEYS   1 to 5 as acquire's
-- ARGV   1 grant  2 gone_ms  3 amount; the last as acquire's
-- reply  'left' (it was queued), 'passed_on' (it had the lock) or 'unknown'; a note, as in
--        lua/README.md
-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/alive
-- include: redisson_fair_lock/common/move_up
-- include: redisson_lock/common/now_ms
-- include: redisson_lock/common/leave_tombstone
-- include: redisson_fair_lock/common/call_head

local held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if held then
  redis.call('DEL', KEYS[1])
end
redis.call('ZREM', alive, ARGV[1])
local left = redis.call('ZREM', timeouts, ARGV[1]) == 1
if left then
  redis.call('LREM', queue, 1, ARGV[1])  -- Redisson's queue is a list, so this takes O(n)
  move_up(now_ms())
end
if ARGV[2] ~= '0' then
  leave_tombstone(KEYS[5], ARGV[2])
end
local note = redis.call('EXISTS', KEYS[1]) == 0 and call_head() and ' look 1' or ''
return (held and 'passed_on' or left and 'left' or 'unknown') .. note
