-- include: common/remove_waiters
-- include: common/publish_grant
-- include: semaphore/common/choose
-- include: semaphore/common/weights

-- let_in(choice, state, now): those who are admitted leave the queue and get their permits: the
-- request for its lease, others for their claims. Answers the longest claim, nil if there is none.
local function let_in(choice, state, now)
  local request, leaving = choice.request, choice.passed_over
  local entering, weights, beyond_one, longest_ms, claim_ms = {}, {}, 0, 0, nil
  for _, waiter in ipairs(choice.admitted) do
    local lasting_ms = waiter.claim_ms
    if waiter == request then
      lasting_ms = request.lease_ms
    else
      claim_ms = math.max(claim_ms or 0, lasting_ms)
    end
    if waiter ~= request or request.queued then
      leaving[#leaving + 1] = waiter.hold
    end
    entering[#entering + 1] = now + 1000 * lasting_ms
    entering[#entering + 1] = waiter.hold
    if waiter.block > 1 then
      weights[#weights + 1] = waiter.hold
      weights[#weights + 1] = waiter.block
      beyond_one = beyond_one + waiter.block - 1
    end
    longest_ms = math.max(longest_ms, lasting_ms)
  end

  remove_waiters(leaving)
  if entering[1] then
    redis.call('ZADD', permits_key, unpack(entering))
    lengthen_ttl(permits_key, longest_ms)
    if beyond_one > 0 then
      redis.call('HSET', KEYS[1], unpack(weights))
      redis.call('HINCRBY', KEYS[1], 'extra', beyond_one)
    end
    touch(state, now + 1000 * longest_ms)
  end
  return claim_ms
end

-- settle(choice, state, now): carries out what choose() chose, for all. Answers the request
-- (nil without one), and the look that the caller is asked for: notes, '' for none. The grants are
-- published when all else is written.
local function settle(choice, state, now)
  local request = choice.request
  purge(state)
  local look_ms = let_in(choice, state, now)
  local look = look_note(look_ms, choice.unfinished)

  local reply
  if choice.joins then
    reply = 'granted 0 ' .. request.lease_ms .. ' 0' .. look .. (request.missed and ' missed' or '')
  elseif request then
    -- It is worth another attempt when the first grant could end.
    local first = redis.call('ZRANGEBYSCORE', permits_key, string.format('(%.0f', now), '+inf',
      'WITHSCORES', 'LIMIT', 0, 1)[2]
    local retry_after_ms = first and math.ceil((first - now) / 1000) or request.heartbeat_ms
    reply = request.wait and enqueue(request, retry_after_ms, now, look_ms, choice.unfinished)
      or 'busy ' .. retry_after_ms .. look
  end
  for _, waiter in ipairs(choice.admitted) do
    if waiter ~= request then
      publish_grant(waiter, '0', '0')
    end
  end
  return reply, look
end
