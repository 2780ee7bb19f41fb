-- include: semaphore/common/touch

-- store(settings, text, set_by, now): stores the capacity in the text form in which it was given.
local function store(settings, text, set_by, now)
  redis.call('HSET', KEYS[1], 'kind', 'semaphore/2', 'capacity', text, 'set_by', set_by)
  settings.capacity, settings.shown, settings.set_by = tonumber(text), text, set_by
  touch(settings, now)
end
