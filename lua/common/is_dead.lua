-- is_dead(waiter, ticket, subscribers, now): whether no client would learn of a grant. A waiter
-- without a subscriber polls twice per second. It counts as live after 2 s of waiting: so
-- subscribed waiters do not overtake it for ever, and the lock is seldom idle until it polls.
local function is_dead(waiter, ticket, subscribers, now)
  return subscribers == 0 and (waiter.polls_until_us < now or now < ticket + 2000000)
end
