-- include: redisson_lock/common/end_latched
-- unknown(latch, gone_ms): the reply to the release of a grant that is not there.
local function unknown(latch, gone_ms)
  local released = redis.call('GET', latch) == '1'
  if gone_ms ~= '0' then
    end_latched(latch, gone_ms)
  end
  return released and 'released' or 'not_held'
end
