-- include: common/extend_expiry
-- include: reentrant/common/purge
-- include: read_write/common/settle

-- read_expiry(grant, now): returns when a live read expires, nil if it is not live.
local function read_expiry(grant, now)
  local expiry = tonumber(redis.call('ZSCORE', read_grants_key, grant)) or 0
  return expiry > now and expiry or nil
end

-- read_again(request, expiry, state, fence, now): returns acquire_read's reply if the grant exists:
-- this is a repeat, or a heartbeat that crossed the grant. Its write may have expired meanwhile, or
-- an unfinished choice may have to be continued.
local function read_again(request, expiry, state, fence, now)
  find_place(request, now)
  request.missed = request.attempt > 1
  local choice = choose(nil, state, now)
  local _, left_ms = extend_expiry(read_grants_key, expiry, request, now)
  expire_readers(now)
  purge(state.grants)
  settle(choice, state, fence, now)
  return granted_read(request, fence, left_ms, state.grants,
    check_note(nil, choice.unfinished))
end
