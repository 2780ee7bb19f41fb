-- include: common/read_waiter

-- find_place(request, now): finds the request in the queue, KEYS[2] or request.queue_key. Sets
-- request.queued, its ticket, its latest attempt, and `missed` if it may have left the queue
-- without knowing it. A waiter keeps its ticket, returns to an older one that it was given, or
-- comes last. Reads only.
local function find_place(request, now)
  local queue_key = request.queue_key or KEYS[2]
  local ticket = redis.call('ZSCORE', queue_key, request.grant)
  local recorded = read_waiter(request.grant)
  request.queued = ticket and true or false
  request.missed = not ticket and request.attempt > 1
  if ticket and (request.ticket == 0 or tonumber(ticket) < request.ticket) then
    request.ticket = tonumber(ticket)
  elseif request.ticket == 0 then
    local last = redis.call('ZRANGE', queue_key, '-1', '-1', 'WITHSCORES')[2]
    request.ticket = math.max(now, last and tonumber(last) + 1 or 0)
  end
  if recorded then
    request.attempt = math.max(request.attempt, recorded.attempt)
  end
end
