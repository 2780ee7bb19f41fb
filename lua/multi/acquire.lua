-- Grants all names of the lock at once, or queues the request at all of them, or refuses it. A
-- request gets the names when all are free and it is the first at each. While it waits, it has
-- none.
--
-- KEYS   1 to 5 as in lua/README.md, of a simple lock of the first name; then 1 to 4 of each other
-- ARGV   as simple/acquire's, with a wait of 2 in place of 1
-- reply  as simple/acquire's. The token is the same for all names; the position is its last in any
--        queue
local call, keys, me, terms = redis.call, KEYS, ARGV[1], ARGV[3]

-- The fast path: see simple/acquire. It equals grant_all() if all names are free, no client waits,
-- and the one token that it wants is the server's time, because each fence is in the same period
-- and not ahead.
if string.sub(terms, 1, 2) == '1 ' then
  local taken, fences = {keys[1], keys[2], keys[5]}, {keys[4]}
  for i = 6, #keys, 4 do
    taken[#taken + 1], taken[#taken + 2] = keys[i], keys[i + 1]
    fences[#fences + 1] = keys[i + 3]
  end
  if call('EXISTS', unpack(taken)) == 0 then
    local time = call('TIME')
    local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
    local period, behind = string.sub(now, 1, 8), true
    for _, fence_key in ipairs(fences) do
      local fence = call('GET', fence_key)
      behind = behind and fence and #fence == 16 and fence < now and fence >= period
    end
    if behind then
      local lease_ms = ARGV[2]
      for i = 1, #fences do
        call('SETRANGE', fences[i], '0', now)
        call('PSETEX', keys[i > 1 and 4 * i - 2 or 1], lease_ms, me)
      end
      return 'granted ' .. now .. ' ' .. lease_ms .. ' 0'
    end
  end
end

-- include: common/time
-- include: common/request
-- include: multi/common/acquire

if redis.call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end
return acquire(read_request(0), now_us())
