-- For people: who holds any of the names, and who waits for any. Writes nothing.
--
-- KEYS   1 to 4 of each name, as in lua/README.md
-- ARGV   1 the most waiters to list
-- reply  as simple/inspect's, of kind 'multi': the largest fence, and each hold once. Of each name
--        it lists as many of the first waiters as is its part
-- include: common/time
-- include: common/hold_id
-- include: common/since
-- include: common/list_waiters
-- include: common/read_fence
-- include: multi/common/names

local most = tonumber(ARGV[1])
local fence, holders, waiting, waiters, seen = 0, {}, 0, {}, {}
for i = 1, #names do
  turn_to(i)
  local its_fence = read_fence()
  fence = math.max(fence, its_fence)
  local holder = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('GETRANGE', KEYS[1], '0', '63')
  if holder and not seen[holder] then
    seen[holder] = true
    local client = client_of(holder)
    holders[#holders + 1] = {holder, client or '', redis.call('PTTL', KEYS[1]), 1,
      client and since(its_fence, now_us()) or '0'}
  end
  for _, waiter in ipairs(list_waiters(math.min(most, math.max(1, math.floor(most / #names))))) do
    if not seen[waiter[1]] then
      seen[waiter[1]] = true
      waiters[#waiters + 1] = waiter
    end
  end
  waiting = math.max(waiting, redis.call('ZCARD', KEYS[2]))
end
table.sort(waiters, function(a, b)
  return tonumber(a[3]) < tonumber(b[3])
end)
for i = #waiters, most + 1, -1 do
  waiters[i] = nil
end
return {
  'multi',
  string.format('%.0f', fence),
  holders,
  math.max(waiting, #waiters),
  waiters,
  #holders,
}
