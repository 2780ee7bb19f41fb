-- include: reentrant/common/grants
-- include: read_write/common/keys

-- read_state(now, but, only_reads): the writer's `grants`; when the last reader expires, not
-- counting `but` (`read_us`); and how many writers and readers wait. Refuses other types before the
-- first write.
local function read_state(now, but, only_reads)
  local state = {grants = read_grants(now, 'read_write/2', only_reads), read_us = 0}
  local last = redis.call('ZRANGE', readers_key, '-2', '-1', 'WITHSCORES')
  for i = 1, #last, 2 do
    if last[i] ~= but then
      state.read_us = tonumber(last[i + 1])
    end
  end
  state.writers_waiting = redis.call('ZCARD', writers_key)
  state.readers_waiting = redis.call('ZCARD', KEYS[2])
  return state
end
