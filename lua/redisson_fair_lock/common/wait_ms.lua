local wait_ms = tonumber(string.match(ARGV[#ARGV], '(%d+)$'))
