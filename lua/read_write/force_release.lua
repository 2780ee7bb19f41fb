-- For people: ends the write and all reads, and hands the lock over. Tells the clients of the 64
-- grants that would have expired last. The others learn of it when they renew.
--
-- KEYS   1 to 4 as acquire's; 5 to 7 as its last three
-- ARGV   as simple/force_release's
-- reply  { 'released', check_ms, grant ... } of those told, { 'free', check_ms } or
--        { 'told', check_ms }
-- include: common/time
-- include: common/check_ms_of
-- include: reentrant/common/list_grants
-- include: reentrant/common/purge
-- include: read_write/common/settle

local now = now_us()
local state = read_state(now)
local fence = read_fence()
local grants = state.grants
local told = {}
if ARGV[2] ~= 'more' then
  for _, listed in ipairs(list_grants(grants, now, window)) do
    told[#told + 1] = listed[1]
  end
  local readers = redis.call('ZRANGE', read_grants_key, #told - window, '-1', 'WITHSCORES')
  for i = 1, #told < window and #readers or 0, 2 do
    if tonumber(readers[i + 1]) > now then
      told[#told + 1] = readers[i]
    end
  end
  grants.ended, grants.count, state.read_us = grants.ended or grants.count > 0, 0, 0
end
-- A call that tells many clients grants the lock to no waiter. Its caller repeats it.
local choice = #told <= least_readers and choose(nil, state, now) or
  {readers = {}, dead_writers = {}, dead_readers = {}, phase = grants.phase, unfinished = true}

purge(grants)
if ARGV[2] ~= 'more' then
  redis.call('UNLINK', read_grants_key)
end
for _, grant in ipairs(told) do
  local client = client_of(grant)
  if client then
    redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. grant .. ' ' .. KEYS[1])
  end
end
local _, check = settle(choice, state, fence, now)
return {ARGV[2] == 'more' and 'told' or told[1] and 'released' or 'free',
  check_ms_of(check), unpack(told)}
