-- include: common/remove_waiters
-- include: common/publish_grant
-- include: semaphore/common/choose
-- include: semaphore/common/touch

-- forget_amounts(grants): removes the stored permit counts of these grants.
local function forget_amounts(grants)
  local beyond_one = permits_beyond_one(grants)
  if beyond_one > 0 then
    redis.call('HDEL', KEYS[1], unpack(grants))
    if redis.call('HINCRBY', KEYS[1], 'extra', -beyond_one) <= 0 then
      redis.call('HDEL', KEYS[1], 'extra')
    end
  end
end

-- forget_all_amounts(state): does this for all grants, however many there are, by creating the hash
-- again.
local function forget_all_amounts(state)
  redis.call('UNLINK', KEYS[1])
  if state.capacity then
    redis.call('HSET', KEYS[1], 'kind', 'semaphore/2', 'capacity', state.shown, 'set_by',
      state.set_by, 'until', string.format('%.0f', state.until_us))
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', state.until_us / 1000))
  end
  state.extra, state.void = nil, nil
end

-- purge(state): removes one window of expired grants.
local function purge(state)
  if state.expired[1] then
    redis.call('ZREM', permits_key, unpack(state.expired))
    if state.extra then
      forget_amounts(state.expired)
    end
  end
  if state.void then
    forget_all_amounts(state)
  end
end

-- let_in(choice, state, now): removes the admitted waiters from the queue, and gives them their
-- permits: the request for its lease, others for their claims. Returns the longest claim, nil if
-- there is none.
local function let_in(choice, state, now)
  local request, leaving = choice.request, choice.passed_over
  local entering, amounts, beyond_one, longest_ms, claim_ms = {}, {}, 0, 0, nil
  for _, waiter in ipairs(choice.admitted) do
    local lasting_ms = waiter.claim_ms
    if waiter == request then
      lasting_ms = request.lease_ms
    else
      claim_ms = math.max(claim_ms or 0, lasting_ms)
    end
    if waiter ~= request or request.queued then
      leaving[#leaving + 1] = waiter.grant
    end
    entering[#entering + 1] = now + 1000 * lasting_ms
    entering[#entering + 1] = waiter.grant
    if waiter.amount > 1 then
      amounts[#amounts + 1] = waiter.grant
      amounts[#amounts + 1] = waiter.amount
      beyond_one = beyond_one + waiter.amount - 1
    end
    longest_ms = math.max(longest_ms, lasting_ms)
  end

  remove_waiters(leaving)
  if entering[1] then
    redis.call('ZADD', permits_key, unpack(entering))
    lengthen_ttl(permits_key, longest_ms)
    if beyond_one > 0 then
      redis.call('HSET', KEYS[1], unpack(amounts))
      redis.call('HINCRBY', KEYS[1], 'extra', beyond_one)
    end
    touch(state, now + 1000 * longest_ms)
  end
  return claim_ms
end

-- settle(choice, state, now): executes choose()'s choice. Returns acquire's reply (nil without a
-- request), and the handover check as a note. Grants are published after all writes.
local function settle(choice, state, now)
  local request = choice.request
  purge(state)
  local check_ms = let_in(choice, state, now)
  local check = check_note(check_ms, choice.unfinished)

  local reply
  if choice.joins then
    reply = 'granted 0 ' .. request.lease_ms .. ' 0' .. check ..
      (request.missed and ' missed' or '')
  elseif request then
    -- The next attempt is due when the first grant may end.
    local first = redis.call('ZRANGEBYSCORE', permits_key, string.format('(%.0f', now), '+inf',
      'WITHSCORES', 'LIMIT', 0, 1)[2]
    local retry_after_ms = first and math.ceil((first - now) / 1000) or request.heartbeat_ms
    reply = request.wait and enqueue(request, retry_after_ms, now, check_ms, choice.unfinished)
      or 'busy ' .. retry_after_ms .. check
  end
  for _, waiter in ipairs(choice.admitted) do
    if waiter ~= request then
      publish_grant(waiter, '0', '0')
    end
  end
  return reply, check
end
