-- "<process id> <connections accepted so far> <used|unused>", of the server that runs it.
local info = redis.call('INFO')
local function field(name) return info:match('\n' .. name .. ':(%d+)') end
-- Keys that do not count as use: they outlive their users, and the next server loads them.
local function stays(key)
  if key:find('^redlatch:') then
    return key:find(':fence$') or key:find(':latch%.counted$') or
           key:find('^redlatch:client:')
  end
  if redis.call('TYPE', key).ok ~= 'hash' then return false end
  local kind = redis.call('HGET', key, 'kind')
  return kind and kind:find('^semaphore/') or kind and kind:find('^latch/')
end
local function unused()
  if field('connected_clients') ~= '1' then return false end
  for db, keys in info:gmatch('\ndb(%d+):keys=(%d+)') do
    if tonumber(keys) > 20000 then return false end  -- too many to look at while others wait
    redis.call('SELECT', db)
    local cursor = '0'
    repeat
      local page = redis.call('SCAN', cursor, 'COUNT', 1000)
      for _, key in ipairs(page[2]) do
        if not stays(key) then return false end
      end
      cursor = page[1]
    until cursor == '0'
  end
  return true
end
return field('process_id') .. ' ' .. field('total_connections_received') .. ' ' ..
       (unused() and 'unused' or 'used')
