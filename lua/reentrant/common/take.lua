-- include: reentrant/common/add_hold

-- take(request, lease_ms, token, now, holds): adds a hold to those of its owner: `holds`, or none
-- if the lock is free.
local function take(request, lease_ms, token, now, holds)
  add_hold('reentrant/2', request.owner, request.hold, now + 1000 * lease_ms, token, holds)
end
