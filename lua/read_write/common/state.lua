-- include: reentrant/common/grants
-- include: read_write/common/keys

-- read_state(now, except, only_reads): returns the writer's `grants`, when the last reader expires
-- (`read_us`), not counting `except`, and how many writers and readers wait. Refuses other types
-- before the first write.
local function read_state(now, except, only_reads)
  local state = {grants = read_grants(now, 'read_write/2', only_reads), read_us = 0}
  local last = redis.call('ZRANGE', read_grants_key, '-2', '-1', 'WITHSCORES')
  for i = 1, #last, 2 do
    if last[i] ~= except then
      state.read_us = tonumber(last[i + 1])
    end
  end
  state.writers_waiting = redis.call('ZCARD', waiting_writers_key)
  state.readers_waiting = redis.call('ZCARD', KEYS[2])
  return state
end
