-- include: common/ask_again
-- include: read_write/common/keys

-- ask_if_taken(): is called when a waiter has left. If the lock stays taken although its owner has
-- left it, only the first waiters know for how long.
local function ask_if_taken()
  if redis.call('HGET', KEYS[1], 'owner') == 'taken' then
    ask_again(KEYS[2])
    ask_again(waiting_writers_key)
  end
end
