-- ids_of(grant, count): the ids of that many permits of the grant.
local function ids_of(grant, count)
  local ids = {}
  for i = 1, count do
    ids[i] = string.gsub(string.sub(redis.sha1hex(grant .. ' ' .. i), 1, 32), '%x%x',
      function(hex) return string.char(tonumber(hex, 16)) end)
  end
  return ids
end
