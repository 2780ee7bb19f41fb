-- Returns the leader. Registers the calling client as an observing one, if it asks for that.
--
-- KEYS   1 to 4 as acquire's; then the leader's record, and the observers
-- ARGV   nothing; or 1 the caller's channel  2 its secret, in hexadecimal digits  3 for how long it
--        is told of changes, in ms
-- reply  '<remaining_ms> <subscribers of the channel> <epoch> <revision> <since_us> <client>
--        <value>'; without a leader '0 <subscribers> 0 0 0 - '
-- include: common/time
-- include: election/common/leader
-- include: election/common/state_of

local subscribers = 0
if ARGV[1] then
  local now, ttl_ms = now_us(), tonumber(ARGV[3])
  redis.call('PEXPIRE', observers_key, ttl_ms, 'GT')  -- lets the ZADD pass if memory is full
  redis.call('ZADD', observers_key, now + 1000 * ttl_ms, ARGV[1] .. ' ' .. ARGV[2])
  if redis.call('PTTL', observers_key) < ttl_ms then
    redis.call('PEXPIRE', observers_key, ttl_ms)
  end
  local forgotten = redis.call('ZRANGEBYSCORE', observers_key, '-inf', now, 'LIMIT', '0', '64')
  if forgotten[1] then
    redis.call('ZREM', observers_key, unpack(forgotten))
  end
  subscribers = redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]
end
if not leader then
  return '0 ' .. subscribers .. ' 0 0 0 - '
end
return redis.call('PTTL', KEYS[1]) .. ' ' .. subscribers .. ' ' .. state_of(leader)
