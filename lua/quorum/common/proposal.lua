-- include: common/read_waiter
-- include: quorum/common/secret_of

-- The last argument of acquire and release is 'proposed secret mode delay_ms run_id': the proposed
-- token and ticket; the secret that a vote by message contains, or nothing if none is wanted; the
-- mode of an acquire; and, if there is a restart delay, that delay and the run of the server that
-- the client knows.
local proposed, own_secret, restart_delay_ms, known_run =
  string.match(table.remove(ARGV), '^(%d+) ?(%x*) ?%a* ?(%d*) ?(%x*)$')

-- place_and_prove(request, near, now): sets the secret of the request's votes by message, which
-- belongs to its attempt: a record has both from the same request. Returns the record that exists.
-- If the request has no ticket, gives it the same one on all nodes, even if one of them is asked
-- late. The nodes' clocks differ, so a proposal that is not `near` this node's clock is ignored.
local function place_and_prove(request, near, now)
  if request.ticket == 0 then
    request.ticket = near and tonumber(proposed) or now
  end
  request.secret = own_secret ~= '' and own_secret or nil
  local recorded = read_waiter(request.grant)
  if recorded and recorded.attempt > request.attempt then
    request.secret = secret_of(recorded)
  elseif recorded and recorded.attempt == request.attempt and not secret_of(recorded) then
    request.secret = nil  -- it was queued by `queue` or `yield`, which ended that attempt
  end
  return recorded
end
