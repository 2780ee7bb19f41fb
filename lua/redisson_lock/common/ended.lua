-- end_latched(latch, gone_ms): a late request of the grant does nothing, and a repeated release is
-- told that it was released. The client deletes the latch when it has the answer, as Redisson does.
local function end_latched(latch, gone_ms)
  redis.call('SET', latch, '1', 'PX', gone_ms ~= '0' and gone_ms or 5000)
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
