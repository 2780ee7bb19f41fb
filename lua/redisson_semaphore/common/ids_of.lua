-- ids_of(grant, count): the ids of that many permits of the grant, of 16 bytes each.
local function ids_of(grant, count)
  local ids, hash = {}, string.sub(redis.sha1hex(grant), 1, 24)
  hash = string.gsub(hash, '%x%x', function(hex) return string.char(tonumber(hex, 16)) end)
  for i = 1, count do
    ids[i] = hash .. string.format('%04d', i)
  end
  return ids
end
