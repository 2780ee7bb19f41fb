-- include: common/grant_id

-- flag(grant, request): is called when a client is queued behind this grant. A grant that was
-- acquired natively is released natively, too, by a command that compares the value and knows of no
-- queue. So this changes its last letter `n` to `w`, and that command finds another value. If a
-- request is given, the grant's client is told as well, as by recall(). Call this after a write,
-- since it needs memory.
local function flag(grant, request)
  if string.sub(grant, -1) == 'n' and client_of(grant) then
    redis.call('SETRANGE', KEYS[1], #grant - 1, 'w')
    if request then
      redis.call('PUBLISH', string.sub(request.channel, 1, -33) .. string.sub(grant, 1, 32),
        'wanted ' .. grant .. ' ' .. KEYS[1])
    end
  end
end
