-- replaces: simple/common/take
-- include: election/common/state_of
-- include: election/common/tell

-- take(request, lease_ms, token, now): makes the request the leader, and tells the observing
-- clients. The leader's value is the name of its Owner, if it has one.
local function take(request, lease_ms, token, now)
  local its = {
    grant = request.grant,
    epoch = token,
    revision = '1',
    since = string.format('%.0f', now),
    value = string.match(request.owner, '^user:(.*)$') or '',
  }
  redis.call('SET', KEYS[1], its.grant, 'PX', lease_ms)
  redis.call('SET', leader_key, its.grant .. ' ' .. its.epoch .. ' 1 ' .. its.since .. ' ' ..
    its.value, 'PX', lease_ms)
  tell(state_of(its))
end
