-- include: election/common/keys

-- The most observing clients that are told of a change at once: those that registered last. The
-- others learn of it with their next heartbeat.
local most_told = 1024

-- tell(state): publishes a change to the observing clients: 'leader <proof> <length of N> <N>
-- <state>'. The proof shows that a script sent the message. It is a hash of a secret that only the
-- observing client and this lock's keys have, and does not reveal that secret. Call this after all
-- writes.
local function tell(state)
  local observers = redis.call('ZRANGE', observers_key, -most_told, '-1')
  local text = #KEYS[1] .. ' ' .. KEYS[1] .. ' ' .. state
  local digest = observers[1] and redis.sha1hex(text)
  for _, observer in ipairs(observers) do
    local channel, secret = string.match(observer, '^(%S+) (%x+)$')
    redis.call('PUBLISH', channel,
      'leader ' .. redis.sha1hex(secret .. digest .. secret) .. ' ' .. text)
  end
end
