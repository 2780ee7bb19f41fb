-- Grants the lock, or queues the hold, or refuses it: whoever came first gets it.
--
-- KEYS   1 the lock: a string, the owner's hold id; 2 to 5 as in lua/README.md
-- ARGV   1 hold  2 lease_ms  3 'block attempt wait heartbeat_ms manual ticket channel'  4 owner
-- reply  'granted <token> <lease_ms> <waiters>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone'

-- The two common cases come first, all of it text, and in line: writing a number as text costs as
-- much as a command, and so does making a function.

-- Free, nobody waits, the hold was not given up, and one token is wanted: the server's time, as the
-- fence lies behind it in the same period (see reserve_tokens()).
if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0 and string.sub(ARGV[3], 1, 2) == '1 ' then
  local time = redis.call('TIME')
  local fence = redis.call('GET', KEYS[4])
  local now = time[1] .. string.sub('00000' .. time[2], -6)
  if fence and #fence == 16 and fence < now and
      string.sub(fence, 1, 8) == string.sub(now, 1, 8) then
    redis.call('SET', KEYS[4], now, 'KEEPTTL')
    redis.call('PSETEX', KEYS[1], ARGV[2], ARGV[1])
    return 'granted ' .. now .. ' ' .. ARGV[2] .. ' 0'
  end
end

-- Another hold's, and the first attempt of one that would wait: it comes last.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and string.find(ARGV[3], '^%d+ 1 1 %d+ %d 0 ') and
    string.find(holder, '^%x+:%d+$') and string.find(holder, ':', 1, true) == 33 and
    redis.call('EXISTS', KEYS[5]) == 0 then
  local time = redis.call('TIME')
  local now = time[1] .. string.sub('00000' .. time[2], -6)
  if redis.call('ZCOUNT', KEYS[2], now, '+inf') == 0 and
      redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 and
      redis.call('ZADD', KEYS[2], 'NX', now, ARGV[1]) == 1 then
    local owner = ARGV[4] or string.sub(ARGV[1], 1, 32)
    local ttl_ms = 3 * string.match(ARGV[3], '^%d+ 1 1 (%d+)')
    local remaining_ms = redis.call('PTTL', KEYS[1])
    redis.call('HSET', KEYS[3], ARGV[1], now .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. owner)
    local position = redis.call('ZRANK', KEYS[2], ARGV[1])
    if position == 0 then
      redis.call('PEXPIRE', KEYS[2], ttl_ms)
      redis.call('PEXPIRE', KEYS[3], ttl_ms)
    else
      redis.call('PEXPIRE', KEYS[2], ttl_ms, 'GT')
      redis.call('PEXPIRE', KEYS[3], ttl_ms, 'GT')
    end
    return 'queued ' .. remaining_ms .. ' ' .. position .. ' ' .. now
  end
end

-- include: common/time
-- include: common/fence
-- include: common/hold_id
-- include: common/request
-- include: simple/common/take
-- include: common/settle

if redis.call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end
local request = read_request(0)
local now = now_us()

if not holder then
  local choice = choose(request, now)
  return settle(choice, read_fence(), now)
end

find_place(request, now)
local remaining_ms = redis.call('PTTL', KEYS[1])

-- A repeat, or a heartbeat that crossed the grant: one acquisition, with the token that it has.
if holder == request.hold then
  local fence = read_fence()
  if remaining_ms < 0 or not request.manual and remaining_ms < request.lease_ms then
    redis.call('PEXPIRE', KEYS[1], request.lease_ms)
    remaining_ms = request.lease_ms
  end
  if request.queued then
    remove_waiter(request.hold)
  end
  local token = fence >= request.block and string.format('%.0f', fence - request.block + 1)
    or reserve_tokens(fence, request.block, now)
  return granted(token, remaining_ms)
end

-- A foreign owner publishes nothing.
local retry_after_ms = client_of(holder) and remaining_ms or -1
if not request.wait then
  return 'busy ' .. retry_after_ms
end
return enqueue(request, retry_after_ms, now)
