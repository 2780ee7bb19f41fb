-- include: common/request
-- include: read_write/common/bid
-- include: read_write/common/keys

-- read_bid(before): what acquire or acquire_read is asked for, of the ARGV after ARGV[before].
local function read_bid(before)
  local request = read_request(before)
  if ARGV[before + 5] == 'phase_fair' then
    request.owner = 'fair:' .. request.owner
  end
  identify(request)
  request.queue_key = not request.reader and writers_key or nil
  request.other_queue = request.reader and writers_key or KEYS[2]
  return request
end
