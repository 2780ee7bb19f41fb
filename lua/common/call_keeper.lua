-- call_keeper(hold, channel): tells the client that may keep this hold, though none of its threads
-- needs it, that another client wants the lock. Its channel is called as the caller's, but for the
-- client.
local function call_keeper(hold, channel)
  if string.sub(hold, -1) == 'k' then
    redis.call('PUBLISH', string.sub(channel, 1, -33) .. string.sub(hold, 1, 32),
      'wanted ' .. hold .. ' ' .. KEYS[1])
  end
end
