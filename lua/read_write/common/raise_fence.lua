-- raise_fence(until_ms): raises the fence after a quarantine, so that readers get no smaller token
-- than those of the previous primary, whose last fence may not have arrived. All its grants are
-- over by now.
local function raise_fence(until_ms)
  local fence = tonumber(string.match(redis.call('GET', KEYS[4]) or '', '^%d+'))
  if fence and until_ms and fence < 1000 * until_ms then
    redis.call('PEXPIRE', KEYS[4], '1', 'GT')  -- lets the SET pass if memory is full
    redis.call('SET', KEYS[4], string.format('%.0f', 1000 * until_ms), 'PX', '86500000')
  end
end
