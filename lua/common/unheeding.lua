-- is_unheeding(waiter, now): one that waits for several names was asked to come, and has not within
-- its claim.
local function is_unheeding(waiter, now)
  return waiter.nudged_us > 0 and waiter.nudged_us + 1000 * waiter.claim_ms <= now
end
