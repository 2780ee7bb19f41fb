-- include: common/extend_expiry
-- include: reentrant/common/purge
-- include: read_write/common/settle

-- read_expiry(hold, now): when a read ends, nil if there is none.
local function read_expiry(hold, now)
  local expiry = tonumber(redis.call('ZSCORE', readers_key, hold)) or 0
  return expiry > now and expiry or nil
end

-- read_again(request, expiry, state, fence, now): acquire_read's reply for a grant that exists: a
-- repeat, or a heartbeat that crossed the grant. The write that it was under may have expired
-- meanwhile, or others may wait for their turn to be gone on with.
local function read_again(request, expiry, state, fence, now)
  find_place(request, now)
  request.missed = request.attempt > 1
  local choice = choose(nil, state, now)
  local _, left_ms = extend_expiry(readers_key, expiry, request, now)
  expire_readers(now)
  purge(state.holds)
  settle(choice, state, fence, now)
  return granted_read(request, fence, left_ms, state.holds,
    look_note(nil, choice.unfinished))
end
