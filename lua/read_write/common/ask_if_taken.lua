-- include: common/ask_again
-- include: read_write/common/keys

-- ask_if_taken(owner): is called when a waiter has left, with the owner of the lock. If the lock
-- stays taken although its owner has left, only the first waiters know for how long.
local function ask_if_taken(owner)
  if owner == 'taken' then
    ask_again(KEYS[2])
    ask_again(waiting_writers_key)
  end
end
