-- include: common/window
-- include: common/publish_grant
-- include: reentrant/common/holds
-- include: reentrant/common/latest_token
-- include: reentrant/common/add_hold

-- let_owner_in(kind, owner, queue_key, now): the owner has the lock since now, or may have further
-- grants since now. If its user named it, those of its waiters that live and are in the window
-- enter as well, past the queue, each by a message and for its claim. Answers the longest of the
-- claims, nil if none enters.
local function let_owner_in(kind, owner, queue_key, now)
  if string.sub(owner, 1, 5) ~= 'user:' or redis.call('EXISTS', queue_key) == 0 then
    return nil
  end
  local entering, longest_ms = {}, nil
  for waiter in each_waiter(queue_key, now, {}) do
    if not waiter.dead and not waiter.overdue and
        string.gsub(waiter.owner, '^fair:', '') == owner then
      entering[#entering + 1] = waiter
    end
  end
  local holds = read_holds(now, kind)
  local token = entering[1] and latest_token(holds)
  for _, waiter in ipairs(entering) do
    redis.call('ZREM', queue_key, waiter.hold)
    redis.call('HDEL', KEYS[3], waiter.hold)
    add_hold(kind, owner, waiter.hold, now + 1000 * waiter.claim_ms, token, holds)
    longest_ms = math.max(longest_ms or 0, waiter.claim_ms)
  end
  local waiting = redis.call('ZCARD', KEYS[2]) +
    (queue_key ~= KEYS[2] and redis.call('ZCARD', queue_key) or 0)
  for _, waiter in ipairs(entering) do
    publish_grant(waiter, token, waiting)
  end
  return longest_ms
end
