-- include: common/time
-- include: common/grant_id
-- include: common/since
-- include: common/read_fence
-- include: common/list_waiters

-- inspection(kind, held_by): returns inspect's reply for a lock with one holder at most (nil:
-- none). The owner is the holder's client, or '' for a foreign holder, whose `since` is '0'.
local function inspection(kind, held_by)
  local holders = {}
  local fence, range = read_fence()
  if held_by then
    local client = client_of(held_by)
    local native = string.find(held_by, '[nw]$')  -- its grant may have no token
    local token = range and range.grant == held_by and range.known or fence
    holders[1] = {held_by, client or '', redis.call('PTTL', KEYS[1]), 1,
      client and not native and since(token, now_us()) or '0'}
  end
  return {
    kind,
    string.format('%.0f', fence),
    holders,
    redis.call('ZCARD', KEYS[2]),
    list_waiters(tonumber(ARGV[1])),
    #holders,
  }
end
