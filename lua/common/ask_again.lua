-- include: common/read_waiter

-- ask_again(queue_key): invites the first waiter, which was told another time for the end of the
-- lock.
local function ask_again(queue_key)
  local first = redis.call('ZRANGE', queue_key, '0', '0')[1]
  local waiter = first and read_waiter(first)
  if waiter then
    redis.call('PUBLISH', waiter.channel, 'look ' .. first .. ' ' .. (waiter.first or KEYS[1]))
  end
end
