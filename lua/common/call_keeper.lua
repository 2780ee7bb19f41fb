-- call_keeper(hold, request): tells the client that may keep this grant, though none of its threads
-- needs it, that another client wants the lock: it waits, or it has only tried. The channel is
-- called as the caller's, but for the client.
local function call_keeper(hold, request)
  if string.sub(hold, -1) == 'k' then
    redis.call('PUBLISH', string.sub(request.channel, 1, -33) .. string.sub(hold, 1, 32),
      (request.calls and 'tried ' or 'wanted ') .. hold .. ' ' .. KEYS[1])
  end
end
