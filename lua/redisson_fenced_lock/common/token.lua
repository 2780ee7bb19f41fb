-- replaces: redisson_lock/common/token
-- The counter of Redisson's fenced lock.
local function next_token()
  return string.format('%.0f', redis.call('INCR', KEYS[4]))
end
local function this_token()
  return redis.call('GET', KEYS[4]) or '0'
end
