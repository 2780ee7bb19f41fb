-- include: common/most_holders
-- include: common/since
-- include: reentrant/common/holds

-- list_holds(holds, now): { hold, owner, remaining_ms, 1, since } of the first of them.
local function list_holds(holds, now)
  local listed = {}
  for i = 1, math.min(holds.count, most_holders) do
    local hold = holds.names[i]
    local live = holds.live[hold]
    listed[i] = {hold, holds.owner, math.floor((live.expiry - now) / 1000), 1,
      since(live.token, now)}
  end
  return listed
end
