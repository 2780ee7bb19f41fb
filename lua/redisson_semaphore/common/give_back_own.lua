-- include: redisson_semaphore/common/give_back
-- include: redisson_semaphore/common/ids_of
-- include: redisson_semaphore/common/permits
-- give_back_own(grant): gives back the permits of the grant. Returns false if it has none.
local function give_back_own(grant)
  local removed = 0
  for _, id in ipairs(ids_of(grant, permits)) do
    removed = removed + redis.call('ZREM', taken, id)
  end
  give_back(string.sub(grant, 1, 32), removed)
  return removed > 0
end
