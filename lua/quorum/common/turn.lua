-- include: common/choose
-- include: common/remove_waiters
-- include: common/look_note
-- include: quorum/common/turn_of

-- A node hands nothing over by itself: the next waiter is told to ask all nodes, and the node
-- grants itself to no other for that long (release has the number in line). The turn's key lives
-- longer.
local turn_ms, known_ms = 100, 2000

-- pass_turn(choice, now): tells the waiter that choose() chose, of a node that is free, to ask.
-- Answers the look that the caller is asked for, a note.
local function pass_turn(choice, now)
  local winner = choice.winner
  remove_waiters(choice.passed_over)
  if not winner then
    redis.call('DEL', KEYS[#KEYS])
    return choice.unfinished and look_note(1) or ''
  end
  redis.call('SET', KEYS[#KEYS], string.format('%s %.0f', winner.hold, now + turn_ms * 1000), 'PX',
    known_ms)
  redis.call('PUBLISH', winner.channel, 'look ' .. winner.hold .. ' ' .. KEYS[1])
  return look_note(turn_ms)
end
