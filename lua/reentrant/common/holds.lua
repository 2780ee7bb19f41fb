-- include: common/hold_id

-- read_holds(now, kind): what KEYS[1], a hash of that kind, says: the owner, its live holds in
-- `live` (hold to expiry and token) and `names`, their number `count`, the `latest` expiry, the
-- holds that have `ended`, and the read-write lock's `policy`.
local function read_holds(now, kind)
  local fields = redis.call('HGETALL', KEYS[1])
  local holds = {count = 0, latest = 0, live = {}, names = {}, ended = {}}
  local found
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if field == 'kind' then
      found = value
    elseif field == 'policy' then
      holds.policy = value
    elseif not client_of(field) then
      holds.owner = field
    else
      local expiry, token = string.match(value, '^(%d+) (%d+)$')
      expiry = tonumber(expiry) or 0
      if expiry > now then
        holds.live[field] = {expiry = expiry, token = token}
        holds.names[#holds.names + 1] = field
        holds.count = holds.count + 1
        holds.latest = math.max(holds.latest, expiry)
      else
        holds.ended[#holds.ended + 1] = field
      end
    end
  end
  if #fields > 0 and found ~= kind then
    error(redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is a hash, but no ' .. kind .. ' lock'))
  end
  return holds
end
