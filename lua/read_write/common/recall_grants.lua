-- include: common/recall
-- include: reentrant/common/only_grant
-- include: read_write/common/keys

-- recall_grants(request, grants, now): recalls the cached grants that keep the request out: the
-- write or, if it would write, the reads. A call recalls 64 reads, in the order in which they
-- expire. The field 'calls' of KEYS[3] stores for which request, and up to which expiry. Returns
-- true if there are more.
local function recall_grants(request, grants, now)
  if grants.count > 0 then
    local grant = only_grant()
    if grant then
      recall(grant, request)
    end
    return false
  end
  if request.reader then
    return false
  end
  local progress = redis.call('HGET', KEYS[3], 'calls') or ''
  local caller, recalled_us = string.match(progress, '^(%S+) (%d+)$')
  local from = caller == request.grant and recalled_us or string.format('%.0f', now)
  local entries = redis.call('ZRANGEBYSCORE', read_grants_key, '(' .. from, '+inf', 'WITHSCORES',
    'LIMIT', '0', '64')
  for i = 1, #entries, 2 do
    recall(entries[i], request)
  end
  if #entries == 128 and request.wait then
    redis.call('HSET', KEYS[3], 'calls', request.grant .. ' ' ..
      string.format('%.0f', entries[128]))
    return true
  elseif caller then
    redis.call('HDEL', KEYS[3], 'calls')
  end
  return false
end
