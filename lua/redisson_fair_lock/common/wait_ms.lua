-- How long this client's waiters keep their place: its wait_timeout.
local wait_ms = tonumber(string.match(ARGV[#ARGV], '(%d+)$'))
