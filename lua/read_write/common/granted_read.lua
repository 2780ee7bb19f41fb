-- include: read_write/common/others

-- granted_read(fence, lease_ms, holds, now): acquire_read's reply for a hold that is in. Its token
-- is the last write's.
local function granted_read(fence, lease_ms, holds, now)
  return 'granted ' .. string.format('%.0f', fence) .. ' ' .. lease_ms .. ' ' .. others(holds, now)
end
