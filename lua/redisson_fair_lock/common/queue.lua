-- include: redisson_lock/common/names
-- The queue of a Redisson fair lock: a list of waiters, and for each the time until which it keeps
-- its place, in ms of the Unix epoch. Each waiter adds its own wait_timeout to the time of the one
-- before it, and takes it off all others when it leaves.
local queue, timeouts = KEYS[2], KEYS[3]
local wait_ms = class_arg

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- drop_overdue(now): removes the waiters at the head whose time is over. Returns the head, or false.
local function drop_overdue(now)
  while true do
    local head = redis.call('LINDEX', queue, 0)
    local ends = head and redis.call('ZSCORE', timeouts, head)
    if not ends or tonumber(ends) > now then
      return head
    end
    redis.call('ZREM', timeouts, head)
    redis.call('LPOP', queue)
  end
end

-- move_up(waiters): they no longer wait for this client.
local function move_up(waiters)
  for _, waiter in ipairs(waiters) do
    redis.call('ZINCRBY', timeouts, -tonumber(wait_ms), waiter)
  end
end

-- leave(grant): gives up the place in the queue. Returns whether it had one.
local function leave(grant)
  local place = redis.call('LPOS', queue, grant)
  redis.call('ZREM', timeouts, grant)
  if not place then
    return false
  end
  move_up(redis.call('LRANGE', queue, place + 1, -1))
  redis.call('LREM', queue, 0, grant)
  return true
end

-- call_head(): tells the first waiter that it may ask. It has a channel of its own.
local function call_head()
  local head = redis.call('LINDEX', queue, 0)
  if head then
    redis.call('PUBLISH', named('redisson_lock__channel') .. ':' .. head, '0')
  end
end
