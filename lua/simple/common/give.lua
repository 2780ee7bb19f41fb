-- include: common/settle
-- include: simple/common/placeholder

-- leave_free(): is called at the end of a script that leaves the lock free. While clients wait, the
-- key has the placeholder, so that no native acquire overtakes them: it needs a key that does not
-- exist. The placeholder lasts as long as the queue, unless a script that finds it free removes it.
local function leave_free()
  local ttl_ms = redis.call('PTTL', KEYS[2])
  if ttl_ms <= 0 then
    redis.call('DEL', KEYS[1])
  else  -- if memory is full, a native acquire is refused as well
    redis.pcall('SET', KEYS[1], placeholder, 'PX', ttl_ms)
  end
end

-- give(choice, fence, now): does what settle() does, and leaves the lock free if no client gets it.
local function give(choice, fence, now)
  local reply, check = settle(choice, fence, now)
  if not choice.winner and (not choice.request or choice.refused or choice.invited) then
    leave_free()
  end
  return reply, check
end
