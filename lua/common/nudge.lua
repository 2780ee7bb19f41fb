-- Those that this call has asked: one message will do for all names.
local asked_now = {}

-- needs_asking(waiter, freed, now): one that waits for several names was not asked to look, and may
-- not know that this name is free, or has not asked for a while.
local function needs_asking(waiter, freed, now)
  return waiter.nudged_us == 0 and (freed or 2 * (now - waiter.asked_us) > 1000 * waiter.claim_ms)
end

-- nudge(choice, now): asks the first waiter, which waits for several names, to look whether it
-- can take all of them: only its own acquire has the keys to tell. It is asked if it may not know
-- that this name is free, or has not asked for a while; once, until it comes. Answers in how many
-- ms the caller is to look whether it came, or nil.
--
-- The `tail` of its record is ' <when it was asked, in us> <the first of its names>'; by that name
-- its client knows the lock.
local function nudge(choice, now)
  local waiter, request = choice.asked, choice.request
  local claim_us = 1000 * waiter.claim_ms
  local since_us = waiter.nudged_us == 0 and waiter.asked_us or waiter.nudged_us
  local asks = needs_asking(waiter, choice.freed or choice.passed_over[1], now)
  if asks then
    if not next(asked_now) then
      redis.call('PEXPIRE', KEYS[2], '1', 'GT')  -- opens the way where memory is full
    end
    redis.call('HSET', KEYS[3], waiter.hold, string.sub(waiter.record, 1, -1 - #waiter.tail) ..
      string.format(' %.0f ', now) .. waiter.first)
    if not asked_now[waiter.hold] then
      asked_now[waiter.hold] = true
      redis.call('PUBLISH', waiter.channel, 'look ' .. waiter.hold .. ' ' .. waiter.first)
    end
    since_us = now
  end
  -- The one that follows it looks, or the caller, for those that are behind it.
  local follows = choice.follows
  local behind = follows ~= nil or redis.call('ZCARD', KEYS[2]) > 1
  if request and request.wait then
    follows = not request.queued and not behind or
      request.queued and redis.call('ZRANK', KEYS[2], request.hold) == 1
  end
  if follows or behind and (asks or not request and follows == nil) then
    return math.max(2, math.ceil((since_us + claim_us - now) / 1000))
  end
  return nil
end
