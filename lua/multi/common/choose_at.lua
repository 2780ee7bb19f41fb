-- include: simple/common/give
-- include: multi/common/survey

-- select_name(name): sets KEYS 1 to 4 to those of one name, as the simple lock's pieces expect.
local present = KEYS
local function select_name(name)
  present[1], present[2], present[3], present[4] =
    name.lock, name.queue, name.waiters, name.fence_key
end

-- A call for 64 names reads only some of their queues, and only some waiters in each, so that it
-- takes less than a millisecond. If work is left, the call is `unfinished`, and its caller repeats
-- it at once.
local names_left, queues_left, unfinished = #names, 16, false
local not_read = {passed_over = {}, unfinished = true}

-- When the last of the claims ends that this call has made or found, in ms from now. nil if there
-- is none.
local check_ms

-- The waiters for several names that this call knows to need no further invitation, by record.
local known_invited = {}

-- find_invited(name, freed, now): returns the first waiter at a name if it waits for several names,
-- is live, and needs no further invitation. Often the same waiter is first at many names.
local function find_invited(name, freed, now)
  local waits_for_several = '^%d+ %d+ %d+ %d+ 2 '  -- see common/parse_waiter
  local first, ticket = unpack(redis.call('ZRANGE', name.queue, '0', '0', 'WITHSCORES'))
  local record = first and redis.call('HGET', name.waiters, first) or ''
  if not known_invited[record] and string.find(record, waits_for_several) then
    local waiter = parse_waiter(first, record)
    if waiter and waiter.overdue_us >= now and not ignored_invitation(waiter, now) and
        not needs_invitation(waiter, freed, now) and
        not is_dead(waiter, ticket, redis.call('PUBSUB', 'NUMSUB', waiter.channel)[2], now) then
      known_invited[record] = waiter
    end
  end
  return known_invited[record]
end

-- choose_at(name, request, now): does what choose() does for one name, within this call's limits.
local function choose_at(name, request, now)
  unfinished = unfinished or names_left == 0
  if unfinished then
    return not_read
  end
  names_left = names_left - 1
  -- The request comes after the first waiter, unless it returns to an older ticket.
  local behind = not request or not request.wait or request.comes_last or name.rank
  local waiter = behind and find_invited(name, not request, now)
  if waiter then
    return {invited = waiter, passed_over = {}, freed = not request}
  end
  unfinished = queues_left == 0 or waiters_left == 0
  if unfinished then
    return not_read
  end
  queues_left = queues_left - 1
  select_name(name)
  local choice = choose(request, now)
  if choice.invited and not choice.invited.overdue then
    known_invited[choice.invited.record] = choice.invited
  end
  return choice
end

-- carry_out(name, choice, now): gives a free name to the waiter that choose_at() chose.
local function carry_out(name, choice, now)
  unfinished = unfinished or choice.unfinished
  select_name(name)
  local claim_ms
  if choice == not_read then
    leave_free()
  elseif choice.invited then
    remove_waiters(choice.passed_over)
    claim_ms = invite(choice, now)
    leave_free()
  else
    give(choice, name.fence, now)
    claim_ms = choice.winner and choice.winner.claim_ms
  end
  check_ms = claim_ms and math.max(claim_ms, check_ms or 0) or check_ms
end
