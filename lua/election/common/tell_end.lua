-- include: election/common/leader
-- include: election/common/tell
-- include: common/taken_id

-- tell_end(reply): if this script has ended a term and no other has begun, tells the observing
-- clients that there is no leader. A release may leave the name taken for a while
-- (common/stay_taken), but the term is over. Returns the reply.
local function tell_end(reply)
  local left = redis.call('GETRANGE', KEYS[1], '0', '63')
  if leader and (left == '' or left == placeholder or left == taken_id(leader.grant)) then
    redis.call('DEL', leader_key)
    tell(leader.epoch .. ' 0 0 - ')
  end
  return reply
end
