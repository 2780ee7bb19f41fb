-- include: redisson_read_write_lock/common/hold_of
-- include: common/most_holders
-- include: common/grant_id
-- holders_of(fields): the holders among these fields of the hash, as inspect lists them, and how
-- many the hash has. A reader has a key that says when its hold ends.
local function holders_of(fields)
  local holders = {}
  for _, field in ipairs(fields) do
    if field ~= 'mode' and #holders < most_holders then
      local left_ms = redis.call('PTTL', hold_of(field, 1))
      local hold = string.gsub(field, ':write$', '')
      holders[#holders + 1] = {hold, client_of(hold) or '',
        left_ms >= 0 and left_ms or redis.call('PTTL', KEYS[1]), 1}
    end
  end
  return holders, redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], 'mode')
end
