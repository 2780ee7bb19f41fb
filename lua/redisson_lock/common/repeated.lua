-- include: redisson_lock/common/extend
-- include: redisson_lock/common/is_manual
-- repeated(token, lease_ms, terms): the reply to a repeat, whose grant has the lock already.
local function repeated(token, lease_ms, terms)
  return 'granted ' .. token .. ' ' ..
    (is_manual(terms) and redis.call('PTTL', KEYS[1]) or extend(KEYS[1], lease_ms)) .. ' 0'
end
