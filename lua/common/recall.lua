-- recall(grant, request): if a client may cache this grant, tells that client that another one
-- waits for the lock, or only tried. Channels differ in their last 32 characters, the client id.
local function recall(grant, request)
  if string.sub(grant, -1) == 'k' then
    redis.call('PUBLISH', string.sub(request.channel, 1, -33) .. string.sub(grant, 1, 32),
      (request.recalls and 'tried ' or 'wanted ') .. grant .. ' ' .. KEYS[1])
  end
end
