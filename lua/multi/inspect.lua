-- For people: lists the holders of any of the names, and the waiters for any. Writes nothing.
--
-- KEYS   1 to 4 of each name, as in lua/README.md
-- ARGV   1 the most waiters to list
-- reply  as simple/inspect's, of kind 'multi': the largest fence, and each grant once. The waiters
--        to list are divided between the names
-- include: common/time
-- include: common/grant_id
-- include: common/since
-- include: common/owner_of
-- include: common/read_fence
-- include: multi/common/names
-- include: multi/common/read_holder

local call, now, most = redis.call, now_us(), tonumber(ARGV[1])
local share = math.max(1, math.floor(most / #names))
local fence, holders, waiting, waiters, seen = 0, {}, 0, {}, {}
for _, name in ipairs(names) do
  local its_fence = read_fence(name.fence_key)
  fence = math.max(fence, its_fence)
  local holder, has_placeholder = read_holder(name.lock)
  local held = holder ~= '' or not has_placeholder and call('EXISTS', name.lock) == 1
  if held and not seen[holder] then
    seen[holder] = true
    local client = client_of(holder)
    holders[#holders + 1] = {holder, client or '', call('PTTL', name.lock), 1,
      client and not string.find(holder, '[nw]$') and since(its_fence, now) or '0'}
  end
  local entries = most > 0 and call('ZRANGE', name.queue, 0, share - 1, 'WITHSCORES') or {}
  for j = 1, #entries, 2 do
    if not seen[entries[j]] then
      seen[entries[j]] = true
      waiters[#waiters + 1] = {entries[j], name.waiters, entries[j + 1]}
    end
  end
  waiting = math.max(waiting, call('ZCARD', name.queue))
end
table.sort(waiters, function(a, b)
  return tonumber(a[3]) < tonumber(b[3])
end)
for i = #waiters, most + 1, -1 do
  waiters[i] = nil
end
for _, waiter in ipairs(waiters) do  -- the owner takes the place of the key
  waiter[2] = owner_of(call('HGET', waiter[2], waiter[1]))
end
return {
  'multi',
  string.format('%.0f', fence),
  holders,
  math.max(waiting, #waiters),
  waiters,
  #holders,
}
