-- find_grant(grant, now): returns the `expiry` and `token` of a live grant of the owner, nil if
-- there is none.
local function find_grant(grant, now)
  local expiry, token = string.match(redis.call('HGET', KEYS[1], grant) or '', '^(%d+) (%d+)')
  expiry = tonumber(expiry)
  return expiry and expiry > now and {grant = grant, expiry = expiry, token = token} or nil
end
