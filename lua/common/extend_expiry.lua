-- extend_expiry(key, expiry, request, now): does what extend_lease() does, for a grant in a zset of
-- expiries. Returns the expiry and the ms that are left.
local function extend_expiry(key, expiry, request, now)
  if not request.manual then
    expiry = math.max(expiry, now + 1000 * request.lease_ms)
  end
  local left_ms = math.floor((expiry - now) / 1000)
  redis.call('PEXPIRE', key, left_ms, 'GT')
  redis.call('ZADD', key, expiry, request.grant)
  return expiry, left_ms
end
