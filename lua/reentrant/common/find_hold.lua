-- find_hold(hold, now): its `expiry` and `token`; nil if it is none of the owner's, or over.
local function find_hold(hold, now)
  local expiry, token = string.match(redis.call('HGET', KEYS[1], hold) or '', '^(%d+) (%d+)')
  expiry = tonumber(expiry)
  return expiry and expiry > now and {hold = hold, expiry = expiry, token = token} or nil
end
