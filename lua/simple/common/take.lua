-- take(request, token, now): makes the request the owner of a lock that is free.
local function take(request)
  redis.call('SET', KEYS[1], request.hold, 'PX', request.lease_ms)
end
