-- include: redisson_semaphore/common/taken
-- ends_of(ids): when the first of them ends, and how many are there.
local function ends_of(ids)
  local first, found = nil, 0
  for _, id in ipairs(ids) do
    local ends = tonumber(redis.call('ZSCORE', taken, id) or nil)
    if ends then
      first, found = math.min(first or ends, ends), found + 1
    end
  end
  return first, found
end
