-- include: common/settle
-- include: common/unheeding
-- include: multi/common/survey
-- include: multi/common/turn_to

-- A call about 64 names looks at few of their queues, and at few waiters in them, so that it takes
-- less than a millisecond. What is left makes it `unfinished`: the caller goes on at once.
local peeks_left, queues_left, unfinished = #names, 16, false
local not_looked_at = {passed_over = {}, unfinished = true}

-- When the last claim ends that this call has made or found, in ms; nil if there is none.
local look_ms

-- Those that wait for several names, by their records, and need not be asked any more.
local asked = {}

-- find_asked(its, freed, now): the first waiter at a name, if it waits for several, lives, and
-- need not be asked whether it can take them. It is often the first at many names.
local function find_asked(its, freed, now)
  local head, ticket = unpack(redis.call('ZRANGE', its[2], '0', '0', 'WITHSCORES'))
  local record = head and redis.call('HGET', its[3], head) or ''
  if not asked[record] and string.find(record, '^%d+ %d+ %d+ %d+ 2 ') then
    local waiter = parse_waiter(head, record)
    if waiter and waiter.overdue_us >= now and not is_unheeding(waiter, now) and
        not needs_asking(waiter, freed, now) and
        not is_dead(waiter, ticket, redis.call('PUBSUB', 'NUMSUB', waiter.channel)[2], now) then
      asked[record] = waiter
    end
  end
  return asked[record]
end

-- choose_at(i, name, request, now): as choose(), at the i-th name, as far as this call looks.
local function choose_at(i, name, request, now)
  unfinished = unfinished or peeks_left == 0
  if unfinished then
    return not_looked_at
  end
  peeks_left = peeks_left - 1
  -- The request comes behind the first waiter, unless it returns to a ticket that it had.
  local behind = not request or not request.wait or request.comes_last or name.rank
  local waiter = behind and find_asked(names[i], not request, now)
  if waiter then
    return {asked = waiter, passed_over = {}, freed = not request}
  end
  unfinished = queues_left == 0 or looks_left == 0
  if unfinished then
    return not_looked_at
  end
  queues_left = queues_left - 1
  turn_to(i)
  local choice = choose(request, now)
  if choice.asked and not choice.asked.overdue then
    asked[choice.asked.record] = choice.asked
  end
  return choice
end

-- carry_out(i, name, choice, now): lets the next waiter have the i-th name, which is free.
local function carry_out(i, name, choice, now)
  unfinished = unfinished or choice.unfinished
  if choice == not_looked_at then
    return
  end
  turn_to(i)
  local ms
  if choice.asked then
    remove_waiters(choice.passed_over)
    ms = nudge(choice, now)
  else
    settle(choice, name.fence, now)
    ms = choice.winner and choice.winner.claim_ms
  end
  look_ms = ms and math.max(ms, look_ms or 0) or look_ms
end
