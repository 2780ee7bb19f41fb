-- ignored_invitation(waiter, now): returns true if a waiter for several names was invited and did
-- not ask within its claim.
local function ignored_invitation(waiter, now)
  return waiter.invited_us > 0 and waiter.invited_us + 1000 * waiter.claim_ms <= now
end
