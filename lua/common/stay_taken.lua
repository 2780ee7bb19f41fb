-- include: common/taken_id
-- include: common/read_waiter

-- Until when the lock stays taken although its grant is released, in us. The time is limited to
-- what was asked for, since the fence, and so the token that it counts from, may be ahead of the
-- clock. A script includes this piece only if it was asked to, since creating a function costs
-- time.
local taken_until = math.min(ending.taken_us, now + 1000 * ending.taken_ms)

-- ask_again(queue_key): invites the first waiter, which was told another time for the end of the
-- lock.
local function ask_again(queue_key)
  local first = redis.call('ZRANGE', queue_key, '0', '0')[1]
  local waiter = first and read_waiter(first)
  if waiter then
    redis.call('PUBLISH', waiter.channel, 'look ' .. first .. ' ' .. (waiter.first or KEYS[1]))
  end
end
