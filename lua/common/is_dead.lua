-- is_dead(waiter, ticket, subscribers, now): nobody would hear a grant, and nobody asks whether
-- there is one. A deaf waiter asks twice per second. It is given its turn once it has waited for
-- 2 s: thus those that hear do not go before it for ever, and seldom wait for it to ask.
local function is_dead(waiter, ticket, subscribers, now)
  return subscribers == 0 and (waiter.polls_until_us < now or now < ticket + 2000000)
end
