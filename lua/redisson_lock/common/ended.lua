-- Redisson keeps its latch until the answer has come; a repeat comes within seconds.
local latch_ms = 5000

-- end_latched(grant's latch, gone_ms): a late request of the grant does nothing, and a repeated
-- release is told that it was released.
local function end_latched(latch, gone_ms)
  redis.call('SET', latch, '1', 'PX', math.max(latch_ms, tonumber(gone_ms)))
end

-- unknown(latch, gone_ms): the reply to the release of a grant that is not there.
local function unknown(latch, gone_ms)
  local released = redis.call('GET', latch) == '1'
  if gone_ms ~= '0' then
    end_latched(latch, gone_ms)
  end
  return released and 'released' or 'not_held'
end

local function gone_ms_of(ending)
  return string.match(ending, '^%d+ %d+ (%d+)')
end
