-- How many permits the grant has.
local permits = tonumber(string.match(ARGV[#ARGV], '^[01] (%d+)'))
