-- Ends a grant at one node, and tells the next live waiter to ask all nodes. Queues the same client
-- again if it asks for that.
--
-- KEYS   1 to 4 as acquire's; unless it is plain, 5 as acquire's and 6 as 5, for the fresh grant;
--        the last one is the reservation
-- ARGV   as in lua/README.md
-- reply  'released', 'released ' and 'queued <retry_after_ms> <position> <ticket>' or 'gone' for
--        the fresh grant, or 'not_held'; and notes
local call, keys, me = redis.call, KEYS, ARGV[1]
local lock, queue = keys[1], keys[2]
local plain = not ARGV[2]

-- The fast path: see simple/acquire. It equals the end of a plain release below if no client waits,
-- or if the first waiter is live.
-- include: common/liveness_record
if plain and string.find(call('GETRANGE', lock, '0', '79'), me .. ' ', 1, true) == 1 then
  if call('EXISTS', queue) == 0 then
    call('DEL', lock)
    return 'released'
  end
  local head = call('ZRANGE', queue, '0', '0')[1]
  -- The grant itself may have waited here, while other nodes granted it.
  local asked_us, heartbeat_ms, channel
  if head ~= me then
    asked_us, heartbeat_ms, channel =
      string.match(call('HGET', keys[3], head) or '', liveness_record)
  end
  local time = call('TIME')
  local now = time[1] * 1000000 + time[2]
  if asked_us and now - asked_us < 2500 * heartbeat_ms and
      call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
    call('DEL', lock)
    if call('ZREM', queue, me) == 1 then
      call('HDEL', keys[3], me)
    end
    call('PSETEX', keys[#keys], '2000', head .. ' ' .. string.format('%.0f', now + 100000))
    call('PUBLISH', channel, 'look ' .. head .. ' ' .. lock)
    return 'released look 100'
  end
end

-- include: common/time
-- include: common/give_back
-- include: common/read_fence
-- include: common/ending
-- include: common/queue
-- include: common/request
-- include: common/leave
-- include: quorum/common/pass_on
-- include: quorum/common/is_held_by
local held, now, ending = is_held_by(me), now_us(), read_ending()
if not held then  -- the grant may have waited here while other nodes granted it
  leave(me, ending.gone_ms)
  return 'not_held' .. (call('EXISTS', lock) == 0 and pass_on(now, me) or '')
end
remove_waiter(me)
call('DEL', lock)
if plain then
  return 'released' .. reserve_for_next(choose(nil, now), now)
end

if ending.gone_ms ~= '0' then
  call('SET', KEYS[5], '', 'PX', ending.gone_ms)
end
give_back_tokens(read_fence(), ending.used, ending.reserved)
local reply = ''
if ARGV[4] then
  reply = ' gone'
  if call('EXISTS', KEYS[6]) == 0 then
    local request = read_request(3)
    find_place(request, now)
    reply = ' ' .. enqueue(request, 0, now)
  end
end
return 'released' .. reply .. reserve_for_next(choose(nil, now), now)
