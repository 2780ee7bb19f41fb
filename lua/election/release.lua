-- Ends a term, and makes the next live candidate the leader.
--
-- KEYS   1 to 6 as those of a simple lock; then the leader's record, and the observers
-- ARGV   as those of a simple lock
-- reply  that of a simple lock
-- include: election/common/take
-- include: election/common/tell_end

local function release()
-- include: simple/common/release
end
return tell_end(release())
