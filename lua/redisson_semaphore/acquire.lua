-- Takes permits of a Redisson semaphore (RSemaphore, RPermitExpirableSemaphore), or says when to
-- ask again. First gives back permits whose programs have died, 64 or as many as it wants.
--
-- KEYS   1 the semaphore: a string, the number of free permits; 2 to 5 as in lua/README.md;
--        6 redisson.yield; 7 rw.readers; 8 the permits that programs have
-- ARGV   1 to 4 as in lua/README.md; 5 unused; the last: 'listens permits'
-- reply  as in lua/README.md; there is no queue, and no position
-- include: redisson_lock/common/read_number
-- include: redisson_lock/common/refuse_readers
-- include: redisson_semaphore/common/ids_of
-- include: redisson_semaphore/common/permits
-- include: redisson_lock/common/now_ms
-- include: redisson_semaphore/common/ends_of
-- include: redisson_semaphore/common/keep
-- include: redisson_semaphore/common/give_back
-- include: redisson_lock/common/yields
-- include: redisson_semaphore/common/never
-- include: redisson_lock/common/wait_for
-- include: redisson_lock/common/is_manual
-- include: common/refuse_cancelled

local _, refused = read_number('a Redisson semaphore')
if refused then
  return refused
end
refused = refuse_readers(KEYS[#KEYS - 1], 'a Redisson semaphore')
if refused then
  return refused
end
local grant, lease_ms, terms = ARGV[1], ARGV[2], ARGV[3]
local client = string.sub(grant, 1, 32)
local ids, now = ids_of(grant, permits), now_ms()

local over = math.min(redis.call('ZCOUNT', taken, '-inf', now), math.max(64, permits))
if over > 0 then
  give_back('', redis.call('ZREMRANGEBYRANK', taken, 0, over - 1))
end
local mine, found = ends_of(ids)
if found == permits then  -- a repeat
  if not is_manual(terms) then
    keep(ids, math.max(mine, now + lease_ms))
    mine = math.max(mine, now + lease_ms)
  end
  return 'granted 0 ' .. string.format('%.0f', math.max(mine - now, 0)) .. ' 0'
end
local wanted = permits - found  -- some are left of a grant whose lease is over
local free = tonumber(redis.call('GET', KEYS[1]) or 0)
local yield_ms = free >= wanted and yields(terms, client, yield_key)
if yield_ms then
  return 'queued ' .. yield_ms .. ' 0 0'
end
if free >= wanted then
  redis.call('DECRBY', KEYS[1], wanted)
  keep(ids, now + lease_ms)
  return 'granted 0 ' .. lease_ms .. ' 0'
end
local first = redis.call('ZRANGE', taken, 0, 0, 'WITHSCORES')
local ends = tonumber(first[2] or never)
if ends < never then
  return wait_for(terms, string.format('%.0f', math.max(ends - now, 0)))
end
return may_wait(terms) and 'queued 0 1 0' or 'busy 0'
