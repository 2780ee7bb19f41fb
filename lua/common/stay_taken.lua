-- include: common/read_waiter

-- Until when the lock stays taken although its grant is released, in us. It is not longer than
-- asked for even if the fence, and so the token that this was counted from, is ahead of the clock.
-- Included only where this was asked for, since functions cost their creation.
local taken_until = math.min(ending.taken_us, now + 1000 * ending.taken_ms)

-- ask_again(queue_key): the lock ends at another time than the first waiter was told, so that
-- waiter asks again.
local function ask_again(queue_key)
  local first = redis.call('ZRANGE', queue_key, '0', '0')[1]
  local waiter = first and read_waiter(first)
  if waiter then
    redis.call('PUBLISH', waiter.channel, 'look ' .. first .. ' ' .. (waiter.first or KEYS[1]))
  end
end
