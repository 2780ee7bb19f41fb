-- Gives up a candidacy: leaves the queue or, if the term has begun, ends it.
--
-- KEYS   1 to 5 as those of a simple lock; then the leader's record, and the observers
-- ARGV   as those of a simple lock
-- reply  that of a simple lock
-- include: election/common/take
-- include: election/common/tell_end

local function cancel()
-- include: simple/cancel
end
return tell_end(cancel())
