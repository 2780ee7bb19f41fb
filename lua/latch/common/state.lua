-- The primitive's own key is the last one in every script.
local counted_key = KEYS[#KEYS]

-- read_latch(ttl_ms): returns what KEYS[1] stores, how many ids have `counted`, and its TTL:
-- ttl_ms, or what is left if that is more. Returns nil if there is no latch. Refuses other types.
-- Reads only.
local function read_latch(ttl_ms)
  local fields = redis.pcall('HMGET', KEYS[1], 'kind', 'incarnation', 'total', 'count', 'missing')
  local counted = redis.call('ZCARD', counted_key)
  if fields[1] == 'latch/2' then
    return {
      incarnation = fields[2],
      total = tonumber(fields[3]),
      count = tonumber(fields[4]),
      missing = fields[5],
      counted = counted,
      ttl_ms = math.max(ttl_ms, redis.call('PTTL', KEYS[1])),
    }
  elseif fields.err or redis.call('EXISTS', KEYS[1]) == 1 then
-- include: common/kind
    error(other_kind(fields, 'latch/2'))
  end
end
