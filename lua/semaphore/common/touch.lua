-- touch(settings, expiry): lets the semaphore outlive a grant with that expiry by 24 hours and some
-- minutes, so that the TTL is seldom written. A capacity that is lost stays lost until it is set
-- again.
local function touch(settings, expiry)
  if settings.capacity and settings.until_us < expiry + 86400000000 then
    settings.until_us = expiry + 87000000000
    redis.call('HSET', KEYS[1], 'until', string.format('%.0f', settings.until_us))
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', settings.until_us / 1000))
  end
end
