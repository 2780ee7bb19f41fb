-- include: redisson_semaphore/common/never
-- list_permits(key, now, most): the permits that end first, as inspect lists them.
local function list_permits(key, now, most)
  local listed, found = {}, redis.call('ZRANGE', key, 0, most - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local ends = tonumber(found[i + 1])
    listed[#listed + 1] = {
      string.gsub(found[i], '.', function(c) return string.format('%02x', string.byte(c)) end),
      '', ends >= never and -1 or math.max(ends - now, 0), 1}
  end
  return listed
end
