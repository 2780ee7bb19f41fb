-- For people: lists the grant that has this node's vote, and the waiters. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; 5 the reservation
-- ARGV   1 the most waiters to list
-- reply  as the simple lock's, but 'quorum'
-- include: common/inspection
-- include: quorum/common/read_holder

local holder = read_holder()
return inspection('quorum', holder ~= '' and holder or nil)
