-- Answers what it was sent, with the server's time: what one call to a script costs, and no more.
--
-- KEYS   none
-- ARGV   1 any string
-- reply  { ARGV[1], the server's time: seconds since the epoch, microseconds of that second }
-- include: common/time
local now = now_us()
return {
  ARGV[1],
  string.format('%.0f', math.floor(now / 1000000)),
  string.format('%.0f', now % 1000000),
}
