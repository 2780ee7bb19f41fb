-- Grants the lock to an owner that has it already, or to the first client that came. Queues or
-- refuses the others.
--
-- KEYS   1 the lock: a hash, { kind = 'reentrant/2', owner, <grant> = 'its expiry in us of server
--        time, its token', and once there are two: holds = how many, token = the latest }; 2 to 5
--        as in lua/README.md; 6 the grants by their expiry, once there are two
-- ARGV   1 grant  2 lease_ms  3 'amount attempt wait heartbeat_ms manual ticket claim_ms
--        listen channel'  4 owner
-- reply  'granted <token> <lease_ms> <waiters>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone', and notes

-- The fast path: see simple/acquire. It equals take() if the lock is free, no client waits, and the
-- one token wanted is the server's time.
if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0 and string.sub(ARGV[3], 1, 2) == '1 ' then
  local time = redis.call('TIME')
  local fence = redis.call('GET', KEYS[4])
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  if fence and #fence == 16 and fence < now and fence >= string.sub(now, 1, 8) then
    redis.call('SET', KEYS[4], now, 'KEEPTTL')
    redis.call('HSET', KEYS[1], 'kind', 'reentrant/2', 'owner',
      ARGV[4] or string.sub(ARGV[1], 1, 32), ARGV[1],
      string.format('%.0f ', now + 1000 * ARGV[2]) .. now)
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 'granted ' .. now .. ' ' .. ARGV[2] .. ' 0'
  end
end

-- include: common/time
-- include: common/fence
-- include: common/request
-- include: reentrant/common/grants
-- include: reentrant/common/take
-- include: reentrant/common/decide
-- include: common/refuse_cancelled

local request = read_request(0)
local now = now_us()
local grants = read_grants(now, 'reentrant/2')
local fence = read_fence()
local choice = grants.count == 0 and choose(request, now) or find_place(request, now)
return (decide(request, choice, grants, fence, now))
