-- include: redisson_read_write_lock/common/hold_of
-- include: common/most_holders
-- include: common/grant_id
-- holders_of(fields): the holders in the fields and values of the hash, as inspect lists them, and
-- how many there are. A reader has a key that says when its hold ends.
local function holders_of(fields)
  local holders, count = {}, 0
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field ~= 'mode' then
      count = count + 1
      if count <= most_holders then
        local left_ms = redis.call('PTTL', hold_of(field, 1))
        local hold = string.gsub(field, ':write$', '')
        holders[count] = {hold, client_of(hold) or '',
          left_ms >= 0 and left_ms or redis.call('PTTL', KEYS[1]), 1}
      end
    end
  end
  return holders, count
end
