-- extend(key, lease_ms): the key expires no sooner than that. Returns what is left, in ms.
local function extend(key, lease_ms)
  local left_ms = redis.call('PTTL', key)
  if left_ms >= 0 and left_ms < tonumber(lease_ms) then
    redis.call('PEXPIRE', key, lease_ms)
    return lease_ms
  end
  return left_ms
end
