-- Gives up a write hold that is not wanted any more: takes it off the queue, with its marker, or,
-- where it was granted meanwhile, ends it. The lock passes on where that makes it possible.
--
-- KEYS   1 to 7 as acquire's
-- ARGV   1 hold  2 gone_ms  3 block
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown'
-- include: common/time
-- include: common/give_back
-- include: common/leave
-- include: reentrant/common/end_hold
-- include: reentrant/common/purge
-- include: read_write/common/settle

local now = now_us()
local state = read_state(now)
local fence = read_fence()
local holds = state.holds
local mine = holds.live[ARGV[1]]
if not mine then
  local was_queued = leave(ARGV[1], ARGV[2])
  redis.call('ZREM', markers_key, ARGV[1])
  local choice = choose(nil, state, now)
  purge(holds)
  settle(choice, state, fence, now)
  return was_queued and 'left' or 'unknown'
end

local block = tonumber(ARGV[3])
end_hold(holds, ARGV[1])
local choice = choose(nil, state, now)

purge(holds)
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ARGV[2])
end
if block > 1 then
  fence = give_back_tokens(fence, mine.token - 1, mine.token + block - 1)
end
settle(choice, state, fence, now)
return 'passed_on'
