-- include: reentrant/common/prolong
-- include: read_write/common/settle

-- write_again(request, mine, state, now): returns acquire's reply if the grant exists: this is a
-- repeat, or a heartbeat that crossed the grant. The grant keeps its token.
local function write_again(request, mine, state, now)
  find_place(request, now)
  request.missed = request.attempt > 1
  prolong(state.grants, mine, request.manual and 0 or now + 1000 * request.lease_ms)
  return granted_write(request, mine.token, math.floor((mine.expiry - now) / 1000))
end
