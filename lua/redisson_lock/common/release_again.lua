-- include: redisson_lock/common/leave_tombstone
-- release_again(tombstone, gone_ms): the reply to the release of a grant that is not there.
local function release_again(tombstone, gone_ms)
  local released = redis.call('GET', tombstone) == '1'
  if gone_ms ~= '0' then
    leave_tombstone(tombstone, gone_ms)
  end
  return released and 'released' or 'not_held'
end
