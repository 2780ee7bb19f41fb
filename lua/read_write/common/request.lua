-- include: common/request
-- include: read_write/common/role
-- include: read_write/common/keys

-- read_rw_request(before): parses the ARGV of acquire or acquire_read, which follow ARGV[before].
local function read_rw_request(before)
  local request = read_request(before)
  if ARGV[before + 5] == 'phase_fair' then
    request.owner = 'fair:' .. request.owner
  end
  set_role(request)
  request.queue_key = not request.reader and waiting_writers_key or nil
  request.other_queue = request.reader and waiting_writers_key or KEYS[2]
  return request
end
