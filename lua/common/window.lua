-- include: common/parse_waiter
-- include: common/window_size

-- is_dead(waiter, ticket, subscribers, now): returns true if no client would learn of a grant. A
-- waiter without a subscriber polls twice per second. It counts as live after 2 s of waiting, so
-- that subscribed waiters do not overtake it for ever. The lock is then idle until it polls, but
-- that happens seldom.
local function is_dead(waiter, ticket, subscribers, now)
  return subscribers == 0 and (waiter.polls_until_us < now or now < ticket + 2000000)
end

-- read_waiters(queue_key, first, last, now): returns the waiters at these places of a queue, each
-- with its `ticket`. A waiter without a record or a subscriber is `dead`. Any other has the fields
-- of its record, and may be `overdue`. PUBSUB NUMSUB counts the subscribers, since the reply of
-- PUBLISH also counts clients that monitor a pattern.
local function read_waiters(queue_key, first, last, now)
  local entries = redis.call('ZRANGE', queue_key, first, last, 'WITHSCORES')
  local waiters, grants, channels = {}, {}, {}
  for i = 1, #entries, 2 do
    grants[#grants + 1] = entries[i]
  end
  if not grants[1] then
    return waiters
  end
  for i, record in ipairs(redis.call('HMGET', KEYS[3], unpack(grants))) do
    waiters[i] = parse_waiter(grants[i], record) or {grant = grants[i], dead = true}
    waiters[i].ticket = tonumber(entries[2 * i])
    channels[i] = waiters[i].channel or ''
  end
  local subscribers = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
  for i, waiter in ipairs(waiters) do
    waiter.dead = waiter.dead or is_dead(waiter, waiter.ticket, subscribers[2 * i], now)
    waiter.overdue = not waiter.dead and waiter.overdue_us < now
  end
  return waiters
end

-- How many more waiters this call may read, in all queues together.
local waiters_left = window

-- each_waiter(queue_key, now, seen): iterates over the window. Reads only as much as is needed,
-- usually the first waiter. Sets `seen.whole` when the queue ends.
local function each_waiter(queue_key, now, seen)
  local page, page_begin, place = {}, 0, 0
  return function()
    if place - page_begin == #page and waiters_left > 0 and not seen.whole then
      local most = math.min(place == 0 and 1 or place < 16 and 15 or window, waiters_left)
      page, page_begin = read_waiters(queue_key, place, place + most - 1, now), place
      waiters_left = waiters_left - #page
      seen.whole = #page < most
    end
    local waiter = page[place - page_begin + 1]
    place = place + 1
    return waiter
  end
end
