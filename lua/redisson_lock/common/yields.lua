-- include: redisson_lock/common/may_wait
-- yields(terms, client, yield): returns how long this client lets others go first, in ms, or nil.
local function yields(terms, client, yield)
  return may_wait(terms) and redis.call('GET', yield) == client and
    math.max(redis.call('PTTL', yield), 0) or nil
end
