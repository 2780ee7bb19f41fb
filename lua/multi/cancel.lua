-- Gives up a grant: removes it from all queues and, if it was granted meanwhile, hands all names
-- over. Names that are free are handed over as well.
--
-- KEYS   1 to 5 as acquire's; then 1 to 4 of each other name
-- ARGV   1 grant  2 gone_ms  3 amount
-- reply  'left' (it was queued), 'passed_on' (it owned a name) or 'unknown', and notes
-- include: common/time
-- include: common/give_back
-- include: multi/common/end_parts
-- include: multi/common/pass_on

local grant, block = ARGV[1], tonumber(ARGV[3])
local held = survey(grant)
local left = end_parts(grant)
for _, name in ipairs(names) do
  if name.ended and block > 1 then
    select_name(name)
    name.fence = give_back_tokens(name.fence, name.fence - block, name.fence)
  end
end
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ARGV[2])
end
return (held > 0 and 'passed_on' or left and 'left' or 'unknown') .. pass_on(now_us())
