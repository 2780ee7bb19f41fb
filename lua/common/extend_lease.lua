-- extend_lease(request): restarts the lease for a repeated acquire. Never shortens it, and does not
-- change a manual lease. Returns the ms that are left.
local function extend_lease(request)
  local left_ms = redis.call('PTTL', KEYS[1])
  if left_ms < 0 or not request.manual and left_ms < request.lease_ms then
    redis.call('PEXPIRE', KEYS[1], request.lease_ms)
    return request.lease_ms
  end
  return left_ms
end
