-- extend(key, lease_ms): the key expires no sooner than that. Returns what is left, in ms.
local function extend(key, lease_ms)
  redis.call('PEXPIRE', key, lease_ms, 'GT')
  return redis.call('PTTL', key)
end
