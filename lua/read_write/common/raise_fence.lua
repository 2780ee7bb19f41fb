-- raise_fence(until_ms): sees to it that no reader gets a token that is smaller than those that the
-- primary before this one may have granted. The fence may be older than its last, but they are all
-- over since the quarantine has ended.
local function raise_fence(until_ms)
  local fence = tonumber(string.match(redis.call('GET', KEYS[4]) or '', '^%d+'))
  if fence and until_ms and fence < 1000 * until_ms then
    redis.call('PEXPIRE', KEYS[4], '1', 'GT')  -- opens the way where memory is full
    redis.call('SET', KEYS[4], string.format('%.0f', 1000 * until_ms), 'PX', '86500000')
  end
end
