-- come_last(queue, alone, heartbeat_ms, now): queues the request of ARGV, which is a first attempt,
-- behind all waiters of the queue (`alone`: there are none). This equals enqueue(). Returns its
-- position. Returns nil, so that the general path decides, if the request is queued already, if its
-- ticket is not the last, or if the TTL of the records must be extended.
local function come_last(queue, alone, heartbeat_ms, now)
  local command, waiters, grant, owner = redis.call, KEYS[3], ARGV[1], ARGV[4]
  local left_ms = command('PTTL', waiters)  -- negative if there are no records yet
  if left_ms >= 0 and left_ms < 2.5 * heartbeat_ms or
      not alone and command('ZCOUNT', queue, now, '+inf') > 0 or
      command('HSETNX', waiters, grant, now .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. #owner ..
        ' ' .. owner) == 0 or
      command('ZADD', queue, 'NX', now, grant) == 0 then
    return nil
  end
  -- A queue must not expire before the records, which two queues share.
  if command('PTTL', queue) < math.max(left_ms, 2.5 * heartbeat_ms) then
    command('PEXPIRE', queue, math.max(left_ms, 3 * heartbeat_ms))
  end
  if left_ms < 0 then
    command('PEXPIRE', waiters, 3 * heartbeat_ms)
  end
  return alone and '0' or command('ZRANK', queue, grant)
end
