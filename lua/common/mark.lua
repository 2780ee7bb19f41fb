-- include: common/grant_id

-- mark(holder, request): a client is queued behind this grant. A grant that was acquired natively is
-- also released natively, by a command that compares the value and knows of no queue. So its last
-- letter `n` becomes `w`, and that command finds another value. If a request is given, the grant's
-- client is told as well, as by recall(). Comes after a write, since it needs memory.
local function mark(holder, request)
  if string.sub(holder, -1) == 'n' and client_of(holder) then
    redis.call('SETRANGE', KEYS[1], #holder - 1, 'w')
    if request then
      redis.call('PUBLISH', string.sub(request.channel, 1, -33) .. string.sub(holder, 1, 32),
        'wanted ' .. holder .. ' ' .. KEYS[1])
    end
  end
end
