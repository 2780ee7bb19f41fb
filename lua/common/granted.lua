-- include: common/check_note

-- granted(request, token, lease_ms): acquire's reply for a grant that owns the lock.
local function granted(request, token, lease_ms)
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' .. redis.call('ZCARD', KEYS[2]) ..
    check_note(request.check_ms) .. (request.missed and ' missed' or '')
end
