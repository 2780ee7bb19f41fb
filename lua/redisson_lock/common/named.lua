-- include: redisson_lock/common/tagged
-- named(kind): a key or channel of Redisson that belongs to the lock.
local function named(kind)
  return kind .. ':' .. tagged
end
