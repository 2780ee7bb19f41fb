-- state_of(its): returns '<epoch> <revision> <since_us> <client> <value>' of a leader.
local function state_of(its)
  return its.epoch .. ' ' .. its.revision .. ' ' .. its.since .. ' ' ..
    string.sub(its.grant, 1, 32) .. ' ' .. its.value
end
