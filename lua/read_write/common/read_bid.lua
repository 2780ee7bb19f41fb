-- include: common/request
-- include: read_write/common/bid

-- read_bid(before): what acquire or acquire_read is asked for, of the ARGV after ARGV[before].
local function read_bid(before)
  local request = read_request(before)
  if ARGV[before + 5] == 'phase_fair' then
    request.owner = 'fair:' .. request.owner
  end
  return identify(request)
end
