-- take(request, lease_ms, token, now): makes the request the owner of a free lock.
local function take(request, lease_ms)
  redis.call('SET', KEYS[1], request.grant, 'PX', lease_ms)
end
