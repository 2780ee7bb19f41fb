-- For people: ends a term, and makes the next live candidate the leader.
--
-- KEYS   1 to 4 as those of a simple lock; then the leader's record, and the observers
-- ARGV   as those of a simple lock
-- reply  that of a simple lock
-- include: election/common/take
-- include: election/common/tell_end

local function force()
-- include: simple/force_release
end
return tell_end(force())
