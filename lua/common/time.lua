-- now_us(): the server's time in microseconds since the epoch, as a number. All of it fits a
-- double exactly; write it with string.format('%.0f', n), as tostring() keeps 14 digits only.
local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
