-- include: latch/common/missing

-- find_latch(asked, now, told): the latch that 'latch:<ttl_ms>:<incarnation>' names. Returns nil
-- and the error if it no longer exists, even if a new latch has its name. A latch that can never
-- open, since has_lost() says so or a key was deleted, is deleted here.
local function find_latch(asked, now, told)
  local ttl_ms, incarnation = string.match(asked, '^latch:(%d+):(.+)$')
  local latch = read_latch(tonumber(ttl_ms))
  if not latch or latch.incarnation ~= incarnation then
    return nil, redis.error_reply('GONE it no longer exists' ..
      (latch and ', though another latch of that name does' or '') ..
      '; what had been counted is lost')
  end
  -- Without the ids that counted, a repeat would count twice.
  local forgotten = latch.counted == 0 and latch.count < latch.total
  if latch.count > 0 and (forgotten or has_lost(latch, told, now)) then
    redis.call('UNLINK', KEYS[1], counted_key)
    return nil, redis.error_reply('GONE it can never open: some counts were lost ' ..
      (forgotten and 'with a key that was deleted or evicted' or
      'when another server replaced the one that had received them'))
  end
  return latch
end
