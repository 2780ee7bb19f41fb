-- Gives up a hold that is not wanted any more: takes it off all queues and, if it was granted
-- meanwhile, passes all names on. Names that are free are handed over as well.
--
-- KEYS   1 to 5 as acquire's; then 1 to 4 of each other name
-- ARGV   1 hold  2 gone_ms  3 block
-- reply  'left' (it was queued), 'passed_on' (it owned a name) or 'unknown', and notes
-- include: common/time
-- include: common/give_back
-- include: multi/common/survey
-- include: multi/common/merge_looks
-- include: simple/common/hand_over

local hold, block = ARGV[1], tonumber(ARGV[3])
local all, held = survey(hold)
local now, left, looks = now_us(), false, ''
for i, name in ipairs(all) do
  turn_to(i)
  local fence = name.fence
  if name.mine then
    redis.call('DEL', KEYS[1])
    fence = block > 1 and give_back_tokens(fence, fence - block, fence) or fence
  end
  left = remove_waiter(hold) or left
  if name.mine or name.free then
    looks = looks .. hand_over(now, fence)
  end
end
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ARGV[2])
end
return (held > 0 and 'passed_on' or left and 'left' or 'unknown') .. merge_looks(looks)
