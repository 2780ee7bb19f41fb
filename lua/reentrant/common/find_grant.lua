-- find_grant(grant, now): the `expiry` and `token` of a live grant of the owner, else nil.
local function find_grant(grant, now)
  local expiry, token = string.match(redis.call('HGET', KEYS[1], grant) or '', '^(%d+) (%d+)')
  expiry = tonumber(expiry)
  return expiry and expiry > now and {grant = grant, expiry = expiry, token = token} or nil
end
