-- The waiters that this call invited: one message is enough for all names.
local invited_now = {}

-- needs_invitation(waiter, freed, now): returns true if a waiter for several names is not invited
-- yet, and either may not know that this name is free or has not asked for a while.
local function needs_invitation(waiter, freed, now)
  return waiter.invited_us == 0 and (freed or 2 * (now - waiter.asked_us) > 1000 * waiter.claim_ms)
end

-- invite(choice, now): invites a waiter for several names to repeat its acquire, since only that
-- script can tell whether all of them are free. Does not invite it again until it has asked.
-- Returns after how many ms the caller must check that it asked, or nil.
--
-- The `tail` of its record is ' <when it was invited, in us> <its first name>'. Its client knows
-- the lock by that name.
local function invite(choice, now)
  local waiter, request = choice.invited, choice.request
  local claim_us = 1000 * waiter.claim_ms
  local since_us = waiter.invited_us == 0 and waiter.asked_us or waiter.invited_us
  local asks = needs_invitation(waiter, choice.freed or choice.passed_over[1], now)
  if asks then
    if not next(invited_now) then
      redis.call('PEXPIRE', KEYS[2], '1', 'GT')  -- lets the HSET pass if memory is full
    end
    redis.call('HSET', KEYS[3], waiter.grant, string.sub(waiter.record, 1, -1 - #waiter.tail) ..
      string.format(' %.0f ', now) .. waiter.first)
    if not invited_now[waiter.grant] then
      invited_now[waiter.grant] = true
      redis.call('PUBLISH', waiter.channel, 'look ' .. waiter.grant .. ' ' .. waiter.first)
    end
    since_us = now
  end
  -- The next waiter makes the check, or the caller if others are queued behind it.
  local follows = choice.follows
  local behind = follows ~= nil or redis.call('ZCARD', KEYS[2]) > 1
  if request and request.wait then
    follows = not request.queued and not behind or
      request.queued and redis.call('ZRANK', KEYS[2], request.grant) == 1
  end
  if follows or behind and (asks or not request and follows == nil) then
    return math.max(2, math.ceil((since_us + claim_us - now) / 1000))
  end
  return nil
end
