-- Lets a reader in where nobody writes and no writer waits, or where it reads under its own owner's
-- write; queues it otherwise, or refuses it.
--
-- KEYS   1 to 7 as acquire's
-- ARGV   1 hold  2 lease_ms  3 'block attempt wait heartbeat_ms manual ticket channel'
--        4 'read:<number>:<owner>', or 'nest:<number>:<hold>' under that write hold
-- reply  'granted <token> <lease_ms> <others>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone'. The token is the last write's, '0' where none is known;
--        others is 1 where a writer waits or writes

-- Nobody writes or waits, and so there is no marker, and the hold was not given up. Others may
-- read: their key counts for one, and each other for two.
local call, keys, args = redis.call, KEYS, ARGV
local lock, queue, gone, readers = keys[1], keys[2], keys[5], keys[6]
local existing = call('EXISTS', lock, lock, queue, queue, gone, gone, readers)
if existing < 2 then
  local token = call('GET', keys[4]) or '0'
  if #token < 16 or #token == 16 and token < '9' then
    token = string.match(token, '^%d+$')
  else
    token = nil
  end
  if token then
    local time = call('TIME')
    local now = time[1] .. string.sub('00000' .. time[2], -6)
    local hold, lease_ms = args[1], args[2]
    if call('ZADD', readers, 'NX', now + 1000 * lease_ms, hold) == 1 then
      if existing == 0 then
        call('PEXPIRE', readers, lease_ms)
      else
        call('PEXPIRE', readers, lease_ms, 'GT')
        call('ZREMRANGEBYSCORE', readers, '-inf', now)
      end
      return 'granted ' .. token .. ' ' .. lease_ms .. ' 0'
    end
  end
end

-- include: common/time
-- include: reentrant/common/purge
-- include: read_write/common/read_bid
-- include: read_write/common/settle

if redis.call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end
local request = read_bid(0)
local now = now_us()
local state = read_state(now)
local fence = read_fence()
local expiry = tonumber(redis.call('ZSCORE', readers_key, request.hold)) or 0
if expiry <= now then
  local choice = choose(request, state, now)
  purge(state.holds)
  return settle(choice, state, fence, now)
end

-- A repeat, or a heartbeat that crossed the grant: one hold. The write that it was under may have
-- expired meanwhile.
find_place(request, now)
local choice = choose(nil, state, now)
if not request.manual then
  expiry = math.max(expiry, now + 1000 * request.lease_ms)
end
local remaining_ms = math.floor((expiry - now) / 1000)
redis.call('PEXPIRE', readers_key, remaining_ms, 'GT')
redis.call('ZADD', readers_key, expiry, request.hold)
redis.call('ZREMRANGEBYSCORE', readers_key, '-inf', now)
purge(state.holds)
if request.queued then
  drop(request.hold)
end
settle(choice, state, fence, now)
return granted_read(fence, remaining_ms, state.holds, now)
