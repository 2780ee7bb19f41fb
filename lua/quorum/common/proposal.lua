-- The last argument of acquire and release is 'proposed secret mode delay_ms run_id': the proposed
-- token and ticket; what a vote by message contains, or nothing if none is wanted; an acquire's
-- mode; and, if there is a restart delay, that and which run of the server the client knows.
local proposed, own_secret, restart_delay_ms, known_run =
  string.match(table.remove(ARGV), '^(%d+) ?(%x*) ?%a* ?(%d*) ?(%x*)$')

-- place_and_prove(request, near, now): gives a request that has no ticket the same one on all
-- nodes, even if one of them is asked late, and the secret of its votes by message. The nodes'
-- clocks differ: a proposal that is not `near` this node's is ignored.
local function place_and_prove(request, near, now)
  if request.ticket == 0 then
    request.ticket = near and tonumber(proposed) or now
  end
  request.secret = own_secret ~= '' and own_secret or nil
end
