-- include: latch/common/missing

-- find_latch(asked, now, told): the latch that is meant by 'latch:<ttl_ms>:<incarnation>'; nil and
-- the error to answer if it has vanished, even if another of that name was made since, or if it can
-- never open, as has_lost() says or a key was deleted: then it vanishes here.
local function find_latch(asked, now, told)
  local ttl_ms, incarnation = string.match(asked, '^latch:(%d+):(.+)$')
  local latch = read_latch(tonumber(ttl_ms))
  if not latch or latch.incarnation ~= incarnation then
    return nil, redis.error_reply('GONE it no longer exists' ..
      (latch and ', though another latch of that name does' or '') ..
      '; what had been counted is lost')
  end
  -- Without the ids of those who counted, a repeat would count twice.
  local forgotten = latch.counted == 0 and latch.count < latch.total
  if latch.count > 0 and (forgotten or has_lost(latch, told, now)) then
    redis.call('UNLINK', KEYS[1], counted_key)
    return nil, redis.error_reply('GONE it can never open: some counts were lost ' ..
      (forgotten and 'with a key that was deleted or evicted' or
      'when another server replaced the one that had received them'))
  end
  return latch
end
