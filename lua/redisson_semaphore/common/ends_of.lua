-- include: redisson_semaphore/common/taken
-- ends_of(ids): when the first of them ends; nil unless all are there.
local function ends_of(ids)
  local first
  for _, id in ipairs(ids) do
    local ends = redis.call('ZSCORE', taken, id)
    if not ends then
      return nil
    end
    first = math.min(first or tonumber(ends), tonumber(ends))
  end
  return first
end
