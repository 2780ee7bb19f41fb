-- Grants permits to the first client that came. Queues or refuses the others.
--
-- KEYS   1 the semaphore: a hash, see lua/README.md; 2 to 5 as there; 6 semaphore.permits
-- ARGV   1 grant  2 lease_ms  3 'permits attempt wait heartbeat_ms manual ticket claim_ms
--        listen channel'  4 owner
--        5 the capacity that the caller expects
-- reply  'granted 0 <lease_ms> 0', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone', and notes

-- Three fast paths come first: see simple/acquire. In all of them, the grant was not given up. They
-- count expired grants as well. The general path removes those.
local call, keys, args = redis.call, KEYS, ARGV
local lock, queue, permits, me, terms = keys[1], keys[2], keys[6], args[1], args[3]
-- include: common/first_attempt_terms
local existing = call('EXISTS', queue, keys[5], keys[5])
local stored = redis.pcall('HMGET', lock, 'kind', 'capacity', 'until', 'extra')
local capacity, extra = stored[2], stored[4]
if existing < 2 and stored[1] == 'semaphore/2' and
    (capacity == args[5] or call('HGET', lock, 'set_by') == 'set_capacity') then
  local amount, lease_ms = string.match(terms, '^%d+'), args[2]
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  -- If a client waits, expired grants are not counted. The waiter at the head removes them.
  local waiting = existing == 1
  local grants = waiting and call('ZCOUNT', permits, '(' .. now, '+inf') or call('ZCARD', permits)
  local free = capacity - grants - (extra or 0)
  -- The general path decides if `extra` is void (see read_state()), if waiters come first, or if
  -- the request wants more than the capacity.
  local plain = (grants > 0 or not extra) and (not waiting or free <= 0) and capacity - amount >= 0
  local heartbeat_ms = free - amount < 0 and string.match(terms, first_attempt_terms)
  if plain and free - amount >= 0 then
    -- No client waits, and the semaphore lives long enough: see touch(). This equals let_in().
    local expiry = now + 1000 * lease_ms
    -- If memory is full, the general path decides: a repeat needs none.
    if stored[3] - expiry >= 86400000000 and
        redis.pcall('ZADD', permits, 'NX', expiry, me) == 1 then
      if grants == 0 then
        call('PEXPIRE', permits, lease_ms)
      else
        call('PEXPIRE', permits, lease_ms, 'GT')
      end
      if amount ~= '1' then
        call('HSET', lock, me, amount)
        call('HINCRBY', lock, 'extra', amount - 1)
      end
      return 'granted 0 ' .. lease_ms .. ' 0'
    end
  elseif plain and heartbeat_ms then
    -- This is the first attempt of a request that may wait. This equals enqueue() if it comes last
    -- and the TTL of the records need not be extended.
    local waiters = keys[3]
    local first_us = call('ZRANGE', permits, '0', '0', 'WITHSCORES')[2] - now
    if first_us > 0 and not call('ZSCORE', permits, me) and
        (not waiting or call('PTTL', waiters) >= 2.5 * heartbeat_ms and
          call('ZCOUNT', queue, now, '+inf') == 0) and
        call('HSETNX', waiters, me, now .. ' ' .. lease_ms .. ' ' .. terms ..
          (#args[4] == 32 and ' 32 ' or ' ' .. #args[4] .. ' ') .. args[4]) == 1 and
        call('ZADD', queue, 'NX', now, me) == 1 then
      if not waiting then
        call('PEXPIRE', queue, 3 * heartbeat_ms)
        call('PEXPIRE', waiters, 3 * heartbeat_ms)
      end
      return 'queued ' .. math.ceil(first_us / 1000) .. ' ' .. call('ZRANK', queue, me) .. ' ' ..
        now
    end
  elseif plain and string.find(terms, '^%d+ %d+ 0 ') then
    -- Too few permits are free, and the request may not wait. This equals settle().
    local first_us = call('ZRANGE', permits, '0', '0', 'WITHSCORES')[2] - now
    if first_us > 0 and not call('ZSCORE', permits, me) then
      return 'busy ' .. math.ceil(first_us / 1000)
    end
  end
end

-- include: common/time
-- include: common/request
-- include: common/extend_expiry
-- include: semaphore/common/store
-- include: semaphore/common/settle
-- include: common/refuse_cancelled

local request = read_request(0)
local now = now_us()
local state = read_state(now)
local expiry = tonumber(redis.call('ZSCORE', permits_key, request.grant) or 0)

-- A repeated acquire, or a heartbeat that crossed the grant: the grant stays, whatever the capacity
-- is now.
if expiry > now then
  find_place(request, now)
  local left_ms
  expiry, left_ms = extend_expiry(permits_key, expiry, request, now)
  touch(state, expiry)
  return 'granted 0 ' .. left_ms .. ' 0' .. (request.attempt > 1 and ' missed' or '')
end

local fresh, expected = not state.capacity, ARGV[5]
if not fresh and state.shown ~= expected and state.set_by ~= 'set_capacity' then
  return redis.error_reply('REFUSED its capacity is ' .. state.shown ..
    ', and this object expects ' .. expected ..
    '; give every object the same capacity, or change it for all with SetCapacity()')
end
state.capacity = state.capacity or tonumber(expected)
if request.amount > state.capacity then
  return redis.error_reply('REFUSED ' .. string.format('%.0f', request.amount) ..
    ' permits are more than its capacity, ' .. (state.shown or expected))
end

local choice = choose(request, state, now)
if fresh then
  store(state, expected, 'constructor', now)
end
return (settle(choice, state, now))
