-- include: election/common/leader
-- include: election/common/tell

-- tell_end(reply): if this script has ended a term and no other has begun, tells the observers that
-- there is no leader. Returns the reply.
local function tell_end(reply)
  if leader and redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('DEL', leader_key)
    tell(leader.epoch .. ' 0 0 - ')
  end
  return reply
end
