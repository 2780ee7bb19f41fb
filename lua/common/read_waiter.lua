-- include: common/parse_waiter

-- read_waiter(hold): the record of one waiter.
local function read_waiter(hold)
  return parse_waiter(hold, redis.call('HGET', KEYS[3], hold))
end
