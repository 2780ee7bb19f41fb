-- include: latch/common/state

-- Clients have this long to repeat counts that a server has lost.
local repeat_ms = 30000

-- lacks(counts, last): returns true if fewer ids have counted until `last` than a waiter was once
-- told.
local function lacks(counts, last)
  return redis.call('ZCOUNT', counted_key, '-inf', last) < tonumber(counts)
end

-- has_lost(latch, told, now): returns true if counts that a waiter was told of ('<counts> <last>',
-- or nil) have been missing for too long, because a promoted server did not receive them. Stores
-- what is missing and sets latch.lost_until_us.
local function has_lost(latch, told, now)
  local counts, last, until_us = string.match(latch.missing or '', '^(%d+) (%d+) (%d+)$')
  local told_counts, told_last = string.match(told or '', '^(%d+) (%d+)$')
  if told_counts and tonumber(told_counts) > tonumber(counts or 0) and
      lacks(told_counts, told_last) then
    counts, last = told_counts, told_last
    until_us = until_us or string.format('%.0f', now + 1000 * math.min(latch.ttl_ms, repeat_ms))
    redis.call('HDEL', KEYS[1], 'missing')  -- lets the HSET pass if memory is full
    redis.call('HSET', KEYS[1], 'missing', counts .. ' ' .. last .. ' ' .. until_us)
  elseif counts and not lacks(counts, last) then
    redis.call('HDEL', KEYS[1], 'missing')
    return false
  end
  latch.lost_until_us = tonumber(until_us)
  return until_us and tonumber(until_us) < now
end

-- find_latch(asked, now, told): returns the latch that 'latch:<ttl_ms>:<incarnation>' names.
-- Returns nil and the error if it no longer exists, even if a new latch has its name. Deletes a
-- latch that can never open, because counts are lost or a key was deleted.
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
