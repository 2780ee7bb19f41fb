-- The end of a Java permit without a lease.
local never = 922337203685477
