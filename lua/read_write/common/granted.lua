-- include: read_write/common/others

-- include: common/look_note

-- granted_write(request, token, lease_ms, look_ms): acquire's reply for a grant that writes; others
-- of its owner may have entered by a message.
local function granted_write(request, token, lease_ms, look_ms)
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' ..
    redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', writers_key) ..
    look_note(look_ms) .. (request.missed and ' missed' or '')
end

-- granted_read(request, fence, lease_ms, holds, look): acquire_read's reply for a grant that reads.
-- Its token is the last write's.
local function granted_read(request, fence, lease_ms, holds, look)
  return 'granted ' .. string.format('%.0f', fence) .. ' ' .. lease_ms .. ' ' .. others(holds) ..
    look .. (request.missed and ' missed' or '')
end
