-- now_us(): returns the server's time in microseconds since 1970. A double holds it exactly; write
-- it with string.format('%.0f', n), since tostring() keeps only 14 digits.
local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
