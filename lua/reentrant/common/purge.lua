-- purge(holds): removes those that have ended. The key then expires with the last that lives.
local function purge(holds)
  if not holds.ended[1] then
    return
  end
  if holds.count == 0 then
    redis.call('DEL', KEYS[1])
    return
  end
  redis.call('HDEL', KEYS[1], unpack(holds.ended))
  redis.call('HSET', KEYS[1], holds.owner, holds.count)
  redis.call('PEXPIREAT', KEYS[1], math.ceil(holds.latest / 1000))
end
