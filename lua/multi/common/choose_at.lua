-- include: common/settle
-- include: common/ignored_invitation
-- include: multi/common/survey
-- include: multi/common/names

-- select_name(i): makes KEYS 1 to 4 those of the i-th name, as the shared pieces expect.
local present = KEYS
local function select_name(i)
  local its = names[i]
  present[1], present[2], present[3], present[4] = its[1], its[2], its[3], its[4]
end

-- A call about 64 names reads few of their queues, and few waiters in each, so that it takes less
-- than a millisecond. If something is left, it is `unfinished`: the caller repeats it at once.
local names_left, queues_left, unfinished = #names, 16, false
local not_read = {passed_over = {}, unfinished = true}

-- When the last claim ends that this call has made or found, in ms; nil if there is none.
local check_ms

-- Waiters for several names, by record, that need no further invitation.
local invited = {}

-- find_invited(its, freed, now): the first waiter at a name if it waits for several names, is live,
-- and needs no further invitation. Often the same waiter is first at many names.
local function find_invited(its, freed, now)
  local head, ticket = unpack(redis.call('ZRANGE', its[2], '0', '0', 'WITHSCORES'))
  local record = head and redis.call('HGET', its[3], head) or ''
  if not invited[record] and string.find(record, '^%d+ %d+ %d+ %d+ 2 ') then
    local waiter = parse_waiter(head, record)
    if waiter and waiter.overdue_us >= now and not ignored_invitation(waiter, now) and
        not needs_invitation(waiter, freed, now) and
        not is_dead(waiter, ticket, redis.call('PUBSUB', 'NUMSUB', waiter.channel)[2], now) then
      invited[record] = waiter
    end
  end
  return invited[record]
end

-- choose_at(i, name, request, now): as choose(), for the i-th name, within this call's limits.
local function choose_at(i, name, request, now)
  unfinished = unfinished or names_left == 0
  if unfinished then
    return not_read
  end
  names_left = names_left - 1
  -- The request comes behind the first waiter, unless it returns to an older ticket.
  local behind = not request or not request.wait or request.comes_last or name.rank
  local waiter = behind and find_invited(names[i], not request, now)
  if waiter then
    return {invited = waiter, passed_over = {}, freed = not request}
  end
  unfinished = queues_left == 0 or waiters_left == 0
  if unfinished then
    return not_read
  end
  queues_left = queues_left - 1
  select_name(i)
  local choice = choose(request, now)
  if choice.invited and not choice.invited.overdue then
    invited[choice.invited.record] = choice.invited
  end
  return choice
end

-- carry_out(i, name, choice, now): gives the i-th name, which is free, to its next waiter.
local function carry_out(i, name, choice, now)
  unfinished = unfinished or choice.unfinished
  if choice == not_read then
    return
  end
  select_name(i)
  local ms
  if choice.invited then
    remove_waiters(choice.passed_over)
    ms = invite(choice, now)
  else
    settle(choice, name.fence, now)
    ms = choice.winner and choice.winner.claim_ms
  end
  check_ms = ms and math.max(ms, check_ms or 0) or check_ms
end
