-- include: common/choose
-- include: common/fence
-- include: common/remove_waiter
-- include: common/remove_waiters
-- include: common/check_note
-- include: quorum/common/secret_of

-- The last key is the reservation: '<grant> <until, in us>'. The key outlives that time, so that a
-- waiter that did not ask in time is recognized.
local reservation_key = KEYS[#KEYS]

-- reservation(now): returns the grant that the node is reserved for, and for how many more ms (0:
-- it did not ask in time). Returns nil if there is none.
local function reservation(now)
  local grant, until_us = string.match(redis.call('GET', reservation_key) or '', '^(%S+) (%d+)$')
  return grant, grant and math.max(0, math.ceil((until_us - now) / 1000))
end

-- If the waiter does not want a vote by message, or this script may not vote, the node is reserved
-- for it for reserved_ms.
local reserved_ms, known_ms = 100, 2000

-- vote_by_message(winner, secret, now, clock): makes a waiter the owner of this node for its claim,
-- and tells it. For `clock` see pass_to_next().
local function vote_by_message(winner, secret, now, clock)
  remove_waiter(winner.grant)
  local token = reserve_tokens(read_fence(), winner.amount, clock)
  redis.call('SET', KEYS[1], winner.grant .. ' ' .. winner.attempt, 'PX', winner.claim_ms)
  redis.call('PUBLISH', winner.channel, 'vote ' .. winner.grant .. ' ' .. winner.attempt .. ' ' ..
    token .. ' ' .. winner.claim_ms .. string.format(' %d %.0f ',
    redis.call('EXISTS', KEYS[2]), now) .. secret .. ' ' .. KEYS[1])
end

-- pass_to_next(choice, now, clock): gives a free node's vote to the waiter that choose() chose, or
-- reserves the node for it and invites it. The token is at least `clock`. If `clock` is nil, the
-- node may not vote. Returns the handover check as a note.
local function pass_to_next(choice, now, clock)
  local winner = choice.winner
  remove_waiters(choice.passed_over)
  redis.call('DEL', reservation_key)  -- and lets what follows pass if memory is full
  if not winner then
    return choice.unfinished and check_note(1) or '', 0
  end
  local secret = clock and secret_of(winner)
  if secret then
    vote_by_message(winner, secret, now, clock)
    return check_note(winner.claim_ms), winner.claim_ms
  end
  redis.call('SET', reservation_key,
    string.format('%s %.0f', winner.grant, now + reserved_ms * 1000), 'PX', known_ms)
  redis.call('PUBLISH', winner.channel, 'look ' .. winner.grant .. ' ' .. KEYS[1])
  return check_note(reserved_ms), reserved_ms
end
