-- eligible(request, now): returns true if a request or a waiter may get the lock when it is free. A
-- lock of your own may replace this piece: see docs/tutorials/06-a-lock-of-your-own.md.
local function eligible()
  return true
end
