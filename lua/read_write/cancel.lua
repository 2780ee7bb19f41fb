-- Gives up a write grant that is not wanted any more: takes it off the queue or, if it was granted
-- meanwhile, ends it. The lock passes on if that makes it possible.
--
-- KEYS   1 to 8 as acquire's
-- ARGV   1 grant  2 gone_ms  3 block
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown', and notes
-- include: common/time
-- include: common/give_back
-- include: reentrant/common/end_hold
-- include: common/leave
-- include: read_write/common/settle

local now = now_us()
local state = read_state(now)
local fence = read_fence()
local mine = find_hold(ARGV[1], now)
local left = leave(ARGV[1], ARGV[2], writers_key)
if mine then
  state.holds = without(state.holds, mine, now)
end
local choice = choose(nil, state, now)

purge(state.holds)
local block = tonumber(ARGV[3])
if mine and block > 1 then
  fence = give_back_tokens(fence, mine.token - 1, mine.token + block - 1)
end
local _, look = settle(choice, state, fence, now)
return (mine and 'passed_on' or left and 'left' or 'unknown') .. look
