-- take(request, lease_ms, token, now): makes the request the owner of a lock that is free.
local function take(request, lease_ms)
  redis.call('SET', KEYS[1], request.hold, 'PX', lease_ms)
end
