-- For the command, which does not know the kind: what kind of Redisson's lock this is, and who has
-- it and waits for it, as far as the keys tell. Writes nothing.
--
-- KEYS   1 to 4 as redisson_lock/acquire's; 5 redisson.permits; 6 {N}:timeout
-- ARGV   1 the most holders and waiters to list. If it is 1, a string is no other program's data,
--        as a further key has shown
-- reply  as inspect's, but nil if it is no lock of Redisson's. A holder's owner is `read` for a
--        reader, its permits are how often it has locked the lock. A waiter's owner is `queued`;
--        its permits are how long it keeps its place, in ms
-- include: common/found_kind
-- include: common/grant_id
-- include: common/time
-- include: redisson_lock/common/tagged
-- include: redisson_read_write_lock/common/hold_of
-- include: redisson_semaphore/common/list_permits
local lock, queue, places, token_key, taken, taken_in_java = unpack(KEYS)
local most, now = tonumber(ARGV[1]), math.floor(now_us() / 1000)

-- ask(...): the reply to a command; an empty list if this user may not run it.
local function ask(...)
  local reply = redis.pcall(...)
  return type(reply) == 'table' and reply.err and {} or reply
end

local function listening(channel)
  return ask('PUBSUB', 'NUMSUB', channel)[2] or 0
end

-- left_ms(reader, reads): how long the longest of its first reads lasts. Each has a key.
local function left_ms(reader, reads)
  local left = -2
  for i = 1, math.min(reads, 8) do
    left = math.max(left, redis.call('PTTL', hold_of(reader, i)))
  end
  return left >= 0 and left or redis.call('PTTL', lock)
end

-- holders_in(mode): the holders that the hash names, and how many there are. The writer comes
-- first, and counts alone: only its own thread can read meanwhile.
local function holders_in(mode)
  local writers, readers = {}, {}
  local fields = ask('HSCAN', lock, '0', 'COUNT', 100)[2] or {}
  for i = 1, #fields, 2 do
    local holder, writes = string.gsub(fields[i], ':write$', '')
    local count = tonumber(fields[i + 1]) or 1
    local is_holder = string.find(holder, '^[%x-]+:%d+$')
    if is_holder and (writes > 0 or not mode) then
      writers[#writers + 1] = {holder, client_of(holder) or '', redis.call('PTTL', lock), count}
    elseif is_holder and #readers < most then
      readers[#readers + 1] = {holder, 'read', left_ms(holder, count), count}
    end
  end
  local count = #writers
  if count == 0 and #readers > 0 then
    count = redis.call('HLEN', lock) - 1
  end
  for _, reader in ipairs(readers) do
    writers[#writers + 1] = reader
  end
  writers[most + 1] = nil
  return writers, count
end

-- list_queue(): the waiters of a fair lock, in their order.
local function list_queue()
  local ends, waiters = {}, {}
  local found = redis.call('ZRANGE', places, 0, most - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    ends[found[i]] = tonumber(found[i + 1])
  end
  for i, waiter in ipairs(ask('LRANGE', queue, 0, most - 1)) do
    waiters[i] = {waiter, 'queued', '0', math.max((ends[waiter] or 0) - now, 0)}
  end
  return waiters
end

local function inspect_lock(mode)
  local queued, token = redis.call('ZCARD', places), redis.call('GET', token_key) or '0'
  local kind = mode and 'redisson_read_write_lock' or queued > 0 and 'redisson_fair_lock' or
    token ~= '0' and 'redisson_fenced_lock' or 'redisson_lock'
  local holders, holding = holders_in(mode)
  if holding == 0 and (mode or kind == 'redisson_lock') then
    return false
  end
  local listeners = listening('redisson_lock__channel:' .. tagged) +
    listening('redisson_rwlock:' .. tagged)
  return {kind, token, holders, math.max(queued, listeners), list_queue(), holding}
end

local function inspect_count()
  local in_java = redis.pcall('ZCARD', taken_in_java)
  in_java = type(in_java) == 'number' and in_java or 0
  local used = redis.call('ZCARD', taken) + in_java
  local for_permits = listening('redisson_sc:' .. tagged)
  local for_latch = listening('redisson_countdownlatch__channel__{' .. lock .. '}')
  local kind = in_java > 0 and 'redisson_permit_expirable_semaphore' or
    (used > 0 or for_permits > 0) and 'redisson_semaphore' or
    (for_latch > 0 or most == 1) and 'redisson_latch' or 'redisson_semaphore_or_latch'
  return {kind, '0', list_permits(in_java > 0 and taken_in_java or taken, now, most),
    for_permits + for_latch, {}, used, used + redis.call('GET', lock), used}
end

local words = found_kind()
if words == 'a Redisson semaphore or latch' then
  return inspect_count()
elseif words == 'a Redisson read-write lock' then
  return inspect_lock(true)
elseif words == 'a Redisson lock' or redis.call('EXISTS', lock) == 0 then
  return inspect_lock(false)
end
return false
