-- include: redisson_lock/common/extend
-- renew(field): extends the grant that has this field of the hash, and never shortens it. Returns
-- renew's reply.
local function renew(field)
  if redis.call('HEXISTS', KEYS[1], field) == 0 then
    return 'not_held'
  end
  extend(KEYS[1], ARGV[2])
  return 'held'
end
