-- end_latched(latch, gone_ms): a late request of the grant does nothing, and a repeated release is
-- told that it was released. The client deletes the latch when it has the answer, as Redisson does.
local function end_latched(latch, gone_ms)
  redis.call('SET', latch, '1', 'PX', gone_ms ~= '0' and gone_ms or 5000)
end
