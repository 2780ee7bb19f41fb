-- include: reentrant/common/let_owner_in

-- take(request, lease_ms, token, now, grants): adds a grant to those of its owner (`grants`, nil if
-- the lock is free). The owner's other waiters may get in too: see settle().
local function take(request, lease_ms, token, now, grants)
  add_grant('reentrant/2', request.owner, request.grant, now + 1000 * lease_ms, token, grants)
  if not grants then
    request.check_ms = let_owner_in('reentrant/2', request.owner, KEYS[2], now)
  end
end
