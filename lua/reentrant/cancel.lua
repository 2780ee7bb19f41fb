-- Gives up a grant: removes it from the queue or, if it was granted meanwhile, ends it. If it was
-- its owner's last, hands the lock over. A free lock is handed over as well.
--
-- KEYS   1 to 5 as acquire's, and its last
-- ARGV   1 grant  2 gone_ms  3 amount
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown', and notes
-- include: common/time
-- include: common/fence
-- include: common/ask_again
-- include: common/give_back
-- include: common/leave
-- include: reentrant/common/grants
-- include: reentrant/common/find_grant
-- include: reentrant/common/grants_without
-- include: reentrant/common/take
-- include: common/settle

local now = now_us()
local grants = read_grants(now, 'reentrant/2')
local fence = read_fence()
local mine = find_grant(ARGV[1], now)
local left = leave(ARGV[1], ARGV[2])
if mine then
  grants = without(grants, mine, now)
end
local choice = grants.count == 0 and choose(nil, now)

purge(grants)
local block = tonumber(ARGV[3])
if mine and block > 1 then
  fence = give_back_tokens(fence, mine.token - 1, mine.token + block - 1)
end
local check = ''
if choice then
  check = select(2, settle(choice, fence, now))
elseif left and grants.owner == 'taken' then
  ask_again(KEYS[2])  -- only the first waiter knows how long the lock stays taken
end
return (mine and 'passed_on' or left and 'left' or 'unknown') .. check
