-- include: common/window
-- include: common/publish_grant
-- include: reentrant/common/grants
-- include: reentrant/common/latest_token
-- include: reentrant/common/add_grant

-- let_owner_in(kind, owner, queue_key, now): is called when the owner has just got the lock, or may
-- have further grants. If the user named the owner, its live waiters in the window get in too, past
-- the queue, each by a message and for its claim. Returns the longest claim, nil if no waiter got
-- in.
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
  local grants = read_grants(now, kind)
  local token = entering[1] and latest_token(grants)
  for _, waiter in ipairs(entering) do
    redis.call('ZREM', queue_key, waiter.grant)
    redis.call('HDEL', KEYS[3], waiter.grant)
    add_grant(kind, owner, waiter.grant, now + 1000 * waiter.claim_ms, token, grants)
    longest_ms = math.max(longest_ms or 0, waiter.claim_ms)
  end
  local waiting = redis.call('ZCARD', KEYS[2]) +
    (queue_key ~= KEYS[2] and redis.call('ZCARD', queue_key) or 0)
  for _, waiter in ipairs(entering) do
    publish_grant(waiter, token, waiting)
  end
  return longest_ms
end
