-- replaces: common/extend_lease
-- include: election/common/keys

-- extend_lease(request): extends the lease as for other locks, and gives the leader's record the
-- same TTL.
local function extend_lease(request)
  local left_ms = redis.call('PTTL', KEYS[1])
  if left_ms < 0 or not request.manual and left_ms < request.lease_ms then
    left_ms = request.lease_ms
    redis.call('PEXPIRE', KEYS[1], left_ms)
    redis.call('PEXPIRE', leader_key, left_ms)
  end
  return left_ms
end
