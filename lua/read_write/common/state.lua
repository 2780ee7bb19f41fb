-- include: reentrant/common/holds

-- The keys of its own come last in every script.
local readers_key, markers_key = KEYS[#KEYS - 1], KEYS[#KEYS]

-- latest(key, but): the latest expiry in a zset of them, but for one member's; 0 where there is
-- none. Something in it lives where that is later than now.
local function latest(key, but)
  local last = redis.call('ZRANGE', key, -2, -1, 'WITHSCORES')
  for i = #last - 1, 1, -2 do
    if last[i] ~= but then
      return tonumber(last[i + 1])
    end
  end
  return 0
end

-- read_state(now, but): the writer's `holds`; when the last reader `but` that one ends (`read_us`),
-- and the last wait marker (`marked_us`). Refuses other types, before anything is written.
local function read_state(now, but)
  return {
    holds = read_holds(now, 'read_write'),
    read_us = latest(readers_key, but),
    marked_us = latest(markers_key),
  }
end
