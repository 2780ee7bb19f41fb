-- include: common/stay_taken
-- include: reentrant/common/grants_without
-- include: reentrant/common/prolong

-- stay_taken(grants, mine, now): lets the lock stay taken by a grant whose owner has left. The
-- owner's other grants, if it has any, keep the lock for as long as they last.
local function stay_taken(grants, mine, now)
  grants.latest = without(grants, mine, now).latest
  mine.expiry = taken_until
  redis.call('HSET', KEYS[1], 'owner', 'taken')
  prolong(grants, mine, taken_until)
end
