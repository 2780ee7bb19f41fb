-- include: reentrant/common/let_owner_in

-- take(request, lease_ms, token, now, holds): adds a grant to those of its owner: `holds`, or none
-- if the lock is free. Then the owner's other waiters enter, too: see settle().
local function take(request, lease_ms, token, now, holds)
  add_hold('reentrant/2', request.owner, request.hold, now + 1000 * lease_ms, token, holds)
  if not holds then
    request.look_ms = let_owner_in('reentrant/2', request.owner, KEYS[2], now)
  end
end
