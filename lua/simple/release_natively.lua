-- Ends a grant whose value no waiter has flagged. Does what DELIFEQ does, for servers that lack it.
-- See common/flag.
--
-- KEYS   1 the lock
-- ARGV   1 grant
-- reply  1, or 0 if the lock has another value
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
