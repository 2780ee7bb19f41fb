-- end_hold(holds, hold): moves a live hold to those that have ended; purge() then writes it down.
local function end_hold(holds, hold)
  holds.live[hold] = nil
  holds.ended[#holds.ended + 1] = hold
  holds.count = holds.count - 1
  holds.latest = 0
  for _, other in pairs(holds.live) do
    holds.latest = math.max(holds.latest, other.expiry)
  end
end
