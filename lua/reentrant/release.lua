-- Ends a grant. If it was its owner's last, hands the lock to the next live waiter. Queues the same
-- client again if it asks for that, as simple/release does.
--
-- KEYS   1 to 5 as acquire's; 6 as 5, for the fresh grant; the last as acquire's. A plain release
--        has neither 5 nor 6
-- ARGV   as simple/release's
-- reply  'released', 'released ' and acquire's reply for the fresh grant, or 'not_held'; and notes

-- The fast path equals purge() if this is the only grant, which expires with the key, no client
-- waits, and the release is plain.
if not ARGV[2] then
  local lock = redis.pcall('HMGET', KEYS[1], 'kind', 'holds', ARGV[1])
  if lock[1] == 'reentrant/2' and not lock[2] and lock[3] and
      redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[1])
    return 'released'
  end
end

-- include: common/time
-- include: common/fence
-- include: common/give_back_cached
-- include: common/ending
-- include: common/leave
-- include: common/request
-- include: reentrant/common/grants
-- include: reentrant/common/find_grant
-- include: reentrant/common/grants_without
-- include: reentrant/common/take
-- include: reentrant/common/decide

local now = now_us()
local grants = read_grants(now, 'reentrant/2')
local fence, range = read_fence()
local ending = read_ending()
local mine = find_grant(ARGV[1], now)
local again = mine and ARGV[4] ~= nil
local given_up = again and redis.call('EXISTS', KEYS[6]) == 1
local request = again and not given_up and read_request(3) or nil
leave(ARGV[1], ending.gone_ms)
if mine and ending.taken_us then
-- include: reentrant/common/stay_taken
  if taken_until > now then
    stay_taken(grants, mine, now)
    ask_again(KEYS[2])
    return 'released'
  end
end
if mine then
  grants = without(grants, mine, now)
end
local choice
if grants.count == 0 then
  choice = choose(request, now)
elseif request then
  find_place(request, now)
end

purge(grants)
if mine then
  fence = give_back_cached(ARGV[1], fence, range, ending)
end
local reply, check = nil, ''
if request then
  reply, check = decide(request, choice, grants, fence, now)
elseif choice then
  reply, check = settle(choice, fence, now)
end
return (mine and 'released' or 'not_held') ..
  (reply and ' ' .. reply or given_up and ' gone' .. check or check)
