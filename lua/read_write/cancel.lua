-- Gives up a write grant: removes it from the queue or, if it was granted meanwhile, ends it. Hands
-- the lock over if that makes it possible.
--
-- KEYS   1 to 8 as acquire's
-- ARGV   1 grant  2 gone_ms  3 amount
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown', and notes
-- include: common/time
-- include: read_write/common/ask_if_taken
-- include: common/give_back
-- include: reentrant/common/grants_without
-- include: common/leave
-- include: read_write/common/settle

local now = now_us()
local state = read_state(now)
local fence = read_fence()
local mine = find_grant(ARGV[1], now)
local left = leave(ARGV[1], ARGV[2], waiting_writers_key)
if mine then
  state.grants = without(state.grants, mine, now)
end
local choice = choose(nil, state, now)

purge(state.grants)
local block = tonumber(ARGV[3])
if mine and block > 1 then
  fence = give_back_tokens(fence, mine.token - 1, mine.token + block - 1)
end
local _, check = settle(choice, state, fence, now)
if left then
  ask_if_taken()
end
return (mine and 'passed_on' or left and 'left' or 'unknown') .. check
