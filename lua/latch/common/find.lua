-- include: latch/common/state

-- find_latch(asked): the latch that is meant by 'latch:<ttl_ms>:<incarnation>'; nil and the error
-- to answer if it has vanished, even if another of that name was made since.
local function find_latch(asked)
  local ttl_ms, incarnation = string.match(asked, '^latch:(%d+):(.+)$')
  local latch = read_latch(tonumber(ttl_ms))
  if latch and latch.incarnation == incarnation then
    return latch
  end
  return nil, redis.error_reply((latch and 'GONE it has vanished, and was made anew since'
    or 'GONE it has vanished') .. ': what had been counted is lost')
end
