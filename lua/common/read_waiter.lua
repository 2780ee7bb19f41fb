-- include: common/parse_waiter

-- read_waiter(grant): returns the parsed record of one waiter.
local function read_waiter(grant)
  return parse_waiter(grant, redis.call('HGET', KEYS[3], grant))
end
