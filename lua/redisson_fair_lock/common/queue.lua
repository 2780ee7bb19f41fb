-- include: redisson_lock/common/names
-- The queue of a Redisson fair lock: a list of waiters, and for each the time until which it keeps
-- its place, in ms of the Unix epoch. Each waiter adds its own wait_timeout to the time of the one
-- before it, and takes it off all others when it leaves.
local queue, timeouts = KEYS[2], KEYS[3]
-- redlatch's waiters and until when each counts as live: until three heartbeats after the last. One
-- that dies does not hold up the others for its wait_timeout, if any redlatch client uses the lock.
local alive = KEYS[#KEYS]
local wait_ms = class_arg

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- ends_of(waiter): when the waiter loses its place.
local function ends_of(waiter)
  local ends = tonumber(redis.call('ZSCORE', timeouts, waiter) or math.huge)
  local client = string.match(waiter, '^(%x+):%d+$')
  if client and #client == 32 then
    ends = math.min(ends, redis.call('ZSCORE', alive, waiter) or 0)
  end
  return ends
end

-- drop_overdue(now): removes the waiters at the head whose time is over. Returns the head, or false.
local function drop_overdue(now)
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head or ends_of(head) > now then
      return head
    end
    redis.call('ZREM', timeouts, head)
    redis.call('ZREM', alive, head)
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
  redis.call('ZREM', alive, grant)
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
