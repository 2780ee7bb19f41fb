-- include: common/time
-- include: common/hold_id
-- include: common/since
-- include: common/list_waiters

-- inspection(kind, holder): what inspect replies of a lock that has one holder at most, nil if
-- there is none. Its owner is its client, '' where it is foreign; then since is '0', as it is of a
-- hold that may be kept and was renewed: its tokens end when it does.
local function inspection(kind, holder)
  local holders = {}
  local fence = redis.call('GET', KEYS[4]) or '0'
  if holder then
    local client = client_of(holder)
    local now = now_us()
    local told = client and (string.sub(holder, -1) ~= 'k' or (tonumber(fence) or 0) <= now)
    holders[1] = {holder, client or '', redis.call('PTTL', KEYS[1]), 1,
      told and since(fence, now) or '0'}
  end
  return {
    kind,
    fence,
    holders,
    redis.call('ZCARD', KEYS[2]),
    list_waiters(tonumber(ARGV[1])),
    #holders,
  }
end
