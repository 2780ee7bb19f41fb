-- The general path of simple/acquire, without its fast paths.
-- include: simple/common/is_free
-- include: common/time
-- include: common/fence
-- include: common/grant_id
-- include: common/flag
-- include: common/request
-- include: common/extend_lease
-- include: simple/common/take
-- include: simple/common/give
-- include: common/refuse_cancelled

local request = read_request(0)
local now = now_us()

if is_free() then
  return (give(choose(request, now), read_fence(), now))
end

find_place(request, now)

-- A repeated acquire, or a heartbeat that crossed the grant: the grant keeps its token.
if holder == request.grant then
  local fence, range = read_fence()
  local left_ms = extend_lease(request)
  local last = range and range.grant == holder and range.known or fence
  local token = last >= request.amount and string.format('%.0f', last - request.amount + 1)
    or reserve_tokens(fence, request.amount, now)
  request.missed = request.attempt > 1
  return granted(request, token, left_ms)
end

-- A foreign owner publishes nothing.
local retry_after_ms = client_of(holder) and redis.call('PTTL', KEYS[1]) or -1
if request.recalls then
  recall(holder, request)
end
if not request.wait then
  return 'busy ' .. retry_after_ms
end
request.holder = holder
local reply = enqueue(request, retry_after_ms, now)
flag(holder, request)
return reply
