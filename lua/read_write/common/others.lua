-- include: read_write/common/keys

-- others(grants): tells a reader 1 if a writer waits or writes, so that no further reader joins
-- without asking.
local function others(grants)
  return (grants.count > 0 or redis.call('EXISTS', waiting_writers_key) == 1) and 1 or 0
end
