-- include: latch/common/missing

-- find_latch(asked, now, told): the latch that is meant by 'latch:<ttl_ms>:<incarnation>'; nil and
-- the error to answer if it has vanished, even if another of that name was made since, or if it can
-- never open, as has_lost() says: then it vanishes here.
local function find_latch(asked, now, told)
  local ttl_ms, incarnation = string.match(asked, '^latch:(%d+):(.+)$')
  local latch = read_latch(tonumber(ttl_ms))
  if not latch or latch.incarnation ~= incarnation then
    return nil, redis.error_reply('GONE it no longer exists' ..
      (latch and ', though another latch of that name does' or '') ..
      '; what had been counted is lost')
  end
  if latch.count > 0 and has_lost(latch, told, now) then
    redis.call('UNLINK', KEYS[1], counted_key)
    return nil, redis.error_reply('GONE it can never open: some counts were lost when another ' ..
      'server replaced the one that had received them')
  end
  return latch
end
