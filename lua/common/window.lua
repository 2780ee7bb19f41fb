-- include: common/parse_waiter
-- include: common/is_dead
-- include: common/window_size

-- read_waiters(queue_key, first, last, now): those at these places of a queue, each with its
-- `ticket` and, if its record and a subscriber of its channel are there, what the record says and
-- whether it is `overdue`; else it is `dead`. PUBLISH would count pattern monitors as subscribers.
local function read_waiters(queue_key, first, last, now)
  local entries = redis.call('ZRANGE', queue_key, first, last, 'WITHSCORES')
  local waiters, holds, channels = {}, {}, {}
  for i = 1, #entries, 2 do
    holds[#holds + 1] = entries[i]
  end
  if not holds[1] then
    return waiters
  end
  for i, record in ipairs(redis.call('HMGET', KEYS[3], unpack(holds))) do
    waiters[i] = parse_waiter(holds[i], record) or {hold = holds[i], dead = true}
    waiters[i].ticket = tonumber(entries[2 * i])
    channels[i] = waiters[i].channel or ''
  end
  local heard = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
  for i, waiter in ipairs(waiters) do
    waiter.dead = waiter.dead or is_dead(waiter, waiter.ticket, heard[2 * i], now)
    waiter.overdue = not waiter.dead and waiter.overdue_us < now
  end
  return waiters
end

-- How many more this call looks at, in all queues together.
local looks_left = window

-- each_waiter(queue_key, now): iterates over the window of a queue, and reads no more of it than is
-- asked for: mostly the head will do. `seen.whole` is set once the queue has come to its end.
local function each_waiter(queue_key, now, seen)
  local page, page_begin, place = {}, 0, 0
  return function()
    if place - page_begin == #page and looks_left > 0 and not seen.whole then
      local most = math.min(place == 0 and 1 or place < 16 and 15 or window, looks_left)
      page, page_begin = read_waiters(queue_key, place, place + most - 1, now), place
      looks_left = looks_left - #page
      seen.whole = #page < most
    end
    local waiter = page[place - page_begin + 1]
    place = place + 1
    return waiter
  end
end
