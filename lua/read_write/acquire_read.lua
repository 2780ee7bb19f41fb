-- Lets a reader in if nobody writes and no writer waits, or if it reads under its own owner's
-- write; otherwise queues it, or refuses it.
--
-- KEYS   1 to 8 as acquire's
-- ARGV   1 hold  2 lease_ms  3 'block attempt wait heartbeat_ms manual ticket claim_ms
--        listen channel'  4 'read:<number>:<owner>', or 'nest:<number>:<hold>' under that write
-- reply  'granted <token> <lease_ms> <others>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone', and notes. The token is the last write's, '0' if none
--        is known; others is 1 if a writer waits or writes

-- Nobody writes or waits, and the hold was not given up. Others may read: their key counts for one,
-- and each other for two.
local call, keys, args = redis.call, KEYS, ARGV
local existing = call('EXISTS', keys[1], keys[1], keys[2], keys[2], keys[5], keys[5], keys[6],
  keys[7], keys[7])
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
    if call('ZADD', keys[6], 'NX', now + 1000 * lease_ms, hold) == 1 then
      if existing == 0 then
        call('PEXPIRE', keys[6], lease_ms)
      else
        call('PEXPIRE', keys[6], lease_ms, 'GT')
        local expired = call('ZCOUNT', keys[6], '-inf', now)
        if expired > 0 then
          call('ZREMRANGEBYRANK', keys[6], '0', math.min(expired, 64) - 1)
        end
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
  return (settle(choice, state, fence, now))
end

-- A repeat, or a heartbeat that crossed the grant: one hold. The write that it was under may have
-- expired meanwhile, or others may wait for their turn to be gone on with.
find_place(request, now)
request.missed = request.attempt > 1
if request.queued then
  drop({}, {request.hold})
end
local choice = choose(nil, state, now)
if not request.manual then
  expiry = math.max(expiry, now + 1000 * request.lease_ms)
end
local remaining_ms = math.floor((expiry - now) / 1000)
redis.call('PEXPIRE', readers_key, remaining_ms, 'GT')
redis.call('ZADD', readers_key, expiry, request.hold)
expire_readers(now)
purge(state.holds)
settle(choice, state, fence, now)
return granted_read(request, fence, remaining_ms, state.holds,
  look_note(nil, choice.unfinished))
