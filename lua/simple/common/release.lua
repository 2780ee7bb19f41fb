-- The general path of simple/release, without its fast path.
-- include: simple/common/unflag
-- include: simple/common/is_free
-- include: common/time
-- include: common/give_back_cached
-- include: common/ending
-- include: common/request
-- include: common/leave
-- include: simple/common/hand_over

local ending = read_ending()
if holder ~= ARGV[1] then
  leave(ARGV[1], ending.gone_ms)
  return 'not_held' .. (is_free() and hand_over(now_us()) or '')
end

local fence, range = read_fence()
leave(ARGV[1], ending.gone_ms)
local now = now_us()
if ending.taken_us then
-- include: common/stay_taken
  if taken_until > now then
    redis.call('PEXPIREAT', KEYS[1], math.ceil(taken_until / 1000))
    redis.call('SETRANGE', KEYS[1], '0', taken_id(ARGV[1]))
    ask_again(KEYS[2])
    return 'released'
  end
end
local again = ARGV[4] ~= nil
local given_up = again and redis.call('EXISTS', KEYS[6]) == 1
local request = again and not given_up and read_request(3) or nil
if request then
  request.frees = true
end
local choice = choose(request, now)

redis.call('DEL', KEYS[1])
fence = give_back_cached(ARGV[1], fence, range, ending)
local reply, check = give(choice, fence, now)
return 'released' .. (reply and ' ' .. reply or given_up and ' gone' .. check or check)
