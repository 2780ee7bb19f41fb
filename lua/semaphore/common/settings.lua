-- The primitive's own key is the last one in every script.
local permits_key = KEYS[#KEYS]

-- read_settings(): returns the `capacity` (nil: none is stored), the same as text, what it was
-- `set_by`, until when the key lives, and how many permits are `extra`. Refuses another kind.
local function read_settings()
  local fields = redis.pcall('HMGET', KEYS[1], 'kind', 'capacity', 'set_by', 'until',
    'extra')
  if fields[1] ~= 'semaphore/2' and (fields.err or redis.call('EXISTS', KEYS[1]) == 1) then
-- include: common/kind
    error(other_kind(fields, 'semaphore/2'))
  end
  return {
    capacity = tonumber(fields[2]),
    shown = fields[2],
    set_by = fields[3],
    until_us = tonumber(fields[4]) or 0,
    extra = tonumber(fields[5]),
  }
end
