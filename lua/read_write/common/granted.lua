-- include: read_write/common/others

-- granted_write(request, token, lease_ms): acquire's reply for a hold that writes.
local function granted_write(request, token, lease_ms)
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' ..
    redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', writers_key) ..
    (request.missed and ' missed' or '')
end

-- granted_read(request, fence, lease_ms, holds, look): acquire_read's reply for a hold that reads.
-- Its token is the last write's.
local function granted_read(request, fence, lease_ms, holds, look)
  return 'granted ' .. string.format('%.0f', fence) .. ' ' .. lease_ms .. ' ' .. others(holds) ..
    look .. (request.missed and ' missed' or '')
end
