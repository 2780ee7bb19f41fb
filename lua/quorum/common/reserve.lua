-- include: common/choose
-- include: common/remove_waiters
-- include: common/check_note
-- include: quorum/common/reservation

-- A node hands nothing over by itself. It tells the next waiter to ask all nodes, and grants itself
-- to no other client for reserved_ms. The fast path of release has both numbers as text.
local reserved_ms, known_ms = 100, 2000

-- reserve_for_next(choice, now): reserves a free node for the waiter that choose() chose, and tells
-- it to ask. Returns the handover check as a note.
local function reserve_for_next(choice, now)
  local winner = choice.winner
  remove_waiters(choice.passed_over)
  if not winner then
    redis.call('DEL', reservation_key)
    return choice.unfinished and check_note(1) or ''
  end
  redis.call('SET', reservation_key,
    string.format('%s %.0f', winner.grant, now + reserved_ms * 1000), 'PX', known_ms)
  redis.call('PUBLISH', winner.channel, 'look ' .. winner.grant .. ' ' .. KEYS[1])
  return check_note(reserved_ms)
end
