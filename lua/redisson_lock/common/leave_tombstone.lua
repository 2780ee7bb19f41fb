-- leave_tombstone(tombstone, gone_ms): a late request of the grant does nothing, and a repeated
-- release is told that it was released. If gone_ms is 0, the client deletes it when it has the
-- answer, as Redisson does with its latch.
local function leave_tombstone(tombstone, gone_ms)
  redis.call('DEL', tombstone)  -- lets the SET pass if memory is full
  redis.call('SET', tombstone, '1', 'PX', gone_ms ~= '0' and gone_ms or 5000)
end
