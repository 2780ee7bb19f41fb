-- read_number(wanted): the number of a Redisson semaphore or latch, false if there is none; or nil
-- and the error for another kind.
local function read_number(wanted)
  local number = redis.pcall('GET', KEYS[1])
  if number and (number.err or not string.match(number, '^-?%d+$')) then
-- include: common/wrong_kind
    return nil, wrong_kind(wanted, number.err and number)
  end
  return number
end
