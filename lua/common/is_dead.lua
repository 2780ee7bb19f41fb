-- is_dead(waiter, ticket, subscribers, now): no client would hear of a grant, or ask whether there
-- is one. A waiter that no message reaches asks twice per second. It is given its turn once it has
-- waited for 2 s: thus those that hear do not go before it for ever, and seldom wait for it to ask.
local function is_dead(waiter, ticket, subscribers, now)
  return subscribers == 0 and (waiter.polls_until_us < now or now < ticket + 2000000)
end
