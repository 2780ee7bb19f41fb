-- granted(token, lease_ms): acquire's reply for a hold that owns the lock.
local function granted(token, lease_ms)
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' .. redis.call('ZCARD', KEYS[2])
end
