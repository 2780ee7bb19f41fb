-- state_of(its): '<epoch> <revision> <since_us> <client> <value>'.
local function state_of(its)
  return its.epoch .. ' ' .. its.revision .. ' ' .. its.since .. ' ' ..
    string.sub(its.grant, 1, 32) .. ' ' .. its.value
end
