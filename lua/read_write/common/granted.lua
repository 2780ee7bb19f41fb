-- include: read_write/common/others

-- include: common/check_note

-- granted_write(request, token, lease_ms, check_ms): acquire's reply for a write grant. Other
-- waiters of its owner may have got in by a message.
local function granted_write(request, token, lease_ms, check_ms)
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' ..
    redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', writers_key) ..
    check_note(check_ms) .. (request.missed and ' missed' or '')
end

-- granted_read(request, fence, lease_ms, grants, check): acquire_read's reply for a read grant,
-- with the last write's token.
local function granted_read(request, fence, lease_ms, grants, check)
  return 'granted ' .. string.format('%.0f', fence) .. ' ' .. lease_ms .. ' ' .. others(grants) ..
    check .. (request.missed and ' missed' or '')
end
