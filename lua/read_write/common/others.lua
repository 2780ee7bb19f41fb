-- include: read_write/common/keys

-- others(grants): returns what a reader is told: 1 if a writer waits or writes, so that no further
-- reader joins without asking, otherwise 0.
local function others(grants)
  return (grants.count > 0 or redis.call('EXISTS', waiting_writers_key) == 1) and 1 or 0
end
