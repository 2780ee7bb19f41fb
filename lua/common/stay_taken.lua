-- include: common/taken_id
-- include: common/ask_again

-- Until when the lock stays taken although its grant is released, in us. The time is limited to
-- what was asked for, since the fence, and so the token that it counts from, may be ahead of the
-- clock. A script includes this piece only if it was asked to, since creating a function costs
-- time.
local taken_until = math.min(ending.taken_us, now + 1000 * ending.taken_ms)
