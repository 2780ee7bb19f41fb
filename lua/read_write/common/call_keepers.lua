-- include: common/call_keeper
-- include: reentrant/common/only_hold
-- include: read_write/common/keys

-- call_keepers(request, holds, now): tells the clients that may keep what keeps the request out:
-- the write, or, if it would write, the reads. Of these 64 in a call, in the order in which they
-- end: the field 'calls' of KEYS[3] says for whom, and up to where. Answers whether there are more.
local function call_keepers(request, holds, now)
  if holds.count > 0 then
    local hold = only_hold()
    if hold then
      call_keeper(hold, request)
    end
    return false
  end
  if request.reader then
    return false
  end
  local calls = redis.call('HGET', KEYS[3], 'calls') or ''
  local caller, called_us = string.match(calls, '^(%S+) (%d+)$')
  local from = caller == request.hold and called_us or string.format('%.0f', now)
  local entries = redis.call('ZRANGEBYSCORE', readers_key, '(' .. from, '+inf', 'WITHSCORES',
    'LIMIT', '0', '64')
  for i = 1, #entries, 2 do
    call_keeper(entries[i], request)
  end
  if #entries == 128 and request.wait then
    redis.call('HSET', KEYS[3], 'calls', request.hold .. ' ' ..
      string.format('%.0f', entries[128]))
    return true
  elseif caller then
    redis.call('HDEL', KEYS[3], 'calls')
  end
  return false
end
