-- include: redisson_fair_lock/common/alive
-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/wait_ms
-- enqueue(grant, terms, now): gives the grant a place, or keeps the one that it has.
local function enqueue(grant, terms, now)
  local alive_ms = 3 * string.match(terms, '^%d+ %d+ 1 (%d+)')
  local mine = redis.call('ZSCORE', timeouts, grant)
  if mine then
    redis.call('PEXPIRE', alive, alive_ms, 'GT')  -- lets the ZADD pass if memory is full
  end
  redis.call('ZADD', alive, now + alive_ms, grant)
  if redis.call('PTTL', alive) < alive_ms then
    redis.call('PEXPIRE', alive, alive_ms)
  end
  if mine then
    if tonumber(mine) < now + wait_ms then
      redis.call('ZADD', timeouts, now + wait_ms, grant)
    end
    return
  end
  local last = redis.call('LINDEX', queue, -1)
  local before = last and redis.call('ZSCORE', timeouts, last) or
    now + math.max(redis.call('PTTL', KEYS[1]), 0)
  redis.call('ZADD', timeouts, before + wait_ms, grant)
  redis.call('RPUSH', queue, grant)
end
