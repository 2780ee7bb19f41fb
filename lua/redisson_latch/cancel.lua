-- Ends a wait. A latch knows no waiters.
--
-- KEYS and ARGV as in lua/README.md
-- reply  'unknown'
return 'unknown'
