-- extend_lease(request): a repeated acquire restarts the lease, never shortens it, and leaves a
-- manual lease alone. Returns the ms that are left.
local function extend_lease(request)
  local left_ms = redis.call('PTTL', KEYS[1])
  if left_ms < 0 or not request.manual and left_ms < request.lease_ms then
    redis.call('PEXPIRE', KEYS[1], request.lease_ms)
    return request.lease_ms
  end
  return left_ms
end
