-- include: common/stay_taken
-- include: reentrant/common/grants_without
-- include: reentrant/common/prolong

-- stay_taken(all, left, at): lets the lock stay taken by the grant whose owner has left. The
-- owner's other grants, if it has any, keep the lock for as long as they last.
local function stay_taken(all, left, at)
  all.latest = without(all, left, at).latest
  redis.call('HDEL', KEYS[1], left.grant)
  if all.counted then
    redis.call('ZREM', grants_key, left.grant)
  end
  left.grant, left.expiry = taken_id(left.grant), taken_until
  redis.call('HSET', KEYS[1], 'owner', 'taken')
  prolong(all, left, taken_until)
end
