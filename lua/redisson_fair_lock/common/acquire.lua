-- include: redisson_lock/common/repeated
-- include: redisson_lock/common/may_wait
-- include: redisson_lock/common/refuse_readers
-- include: redisson_lock/common/now_ms
-- include: redisson_lock/common/wait_for
-- include: redisson_fair_lock/common/drop_overdue

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

-- acquire(grant, lease_ms, terms, gone): returns acquire's reply.
local function acquire(grant, lease_ms, terms, gone)
  local lock = KEYS[1]
  if redis.call('EXISTS', gone) == 1 then
    return 'gone'
  end
  local found = redis.pcall('HMGET', lock, grant, 'kind', 'mode')
  if found.err or found[2] or found[3] then
-- include: common/wrong_kind
    return wrong_kind('a Redisson fair lock', found.err and found)
  end
  if found[1] then
    return repeated('0', lease_ms, terms)
  end
  local refused = refuse_readers(KEYS[#KEYS - 1], 'a Redisson fair lock')
  if refused then
    return refused
  end
  local now = now_ms()
  local head, overdue = drop_overdue(now)
  local free = redis.call('EXISTS', lock) == 0
  if free and not overdue and (not head or head == grant) then
    if head then  -- otherwise nothing may be written before the HSET
      redis.call('LPOP', queue)
      redis.call('ZREM', timeouts, grant)
      redis.call('ZREM', alive, grant)
    end
    redis.call('HSET', lock, grant, 1)
    redis.call('PEXPIRE', lock, lease_ms)
    move_up(now)
    return 'granted 0 ' .. lease_ms .. ' 0'
  end
  if may_wait(terms) then
    enqueue(grant, terms, now)
  end
  if free and not overdue then
    call(head)  -- it may be first only now, or have missed its message
  end
  return wait_for(terms, free and
    string.format('%.0f', math.max(math.ceil(ends_of(head) - now), 0)) or
    redis.call('PTTL', lock)) .. (overdue and ' look 1' or '')
end
