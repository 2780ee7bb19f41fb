-- include: redisson_lock/common/publish
-- The permits that programs have: a sorted set of ids of 16 bytes, by the time at which each ends,
-- in ms of the Unix epoch. For an RPermitExpirableSemaphore it is Redisson's, otherwise redlatch's.
local taken, readers, yield = KEYS[#KEYS], KEYS[#KEYS - 1], KEYS[#KEYS - 2]
-- include: redisson_semaphore/common/never

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- ids_of(grant, count): the ids of that many permits of the grant.
local function ids_of(grant, count)
  local ids = {}
  for i = 1, count do
    ids[i] = string.gsub(string.sub(redis.sha1hex(grant .. ' ' .. i), 1, 32), '%x%x',
      function(hex) return string.char(tonumber(hex, 16)) end)
  end
  return ids
end

-- ends_of(ids): when the first of them ends; nil unless all are there.
local function ends_of(ids)
  local first
  for _, id in ipairs(ids) do
    local ends = redis.call('ZSCORE', taken, id)
    if not ends then
      return nil
    end
    first = math.min(first or tonumber(ends), tonumber(ends))
  end
  return first
end

-- keep(ids, ends): the permits end then; the set lives for a day longer, but no longer than the
-- semaphore.
local function keep(ids, ends, how, now)
  for _, id in ipairs(ids) do
    redis.call('ZADD', taken, how, ends, id)
  end
  local free_ms = redis.call('PTTL', KEYS[1])
  if free_ms > 0 then
    redis.call('PEXPIRE', taken, free_ms)
  elseif string.find(taken, 'redisson.permits', 1, true) then
    redis.call('PEXPIRE', taken, ends - now + 86400000)
  end
end

-- give_back(ids): these permits are free again. Returns how many of them were taken.
local function give_back(client, ids)
  local removed = 0
  for _, id in ipairs(ids) do
    removed = removed + redis.call('ZREM', taken, id)
  end
  if removed > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
    local free = redis.call('INCRBY', KEYS[1], removed)
    if free > 0 then
      begin_yield(client, redis.call('PUBLISH', named('redisson_sc'), free), yield)
    end
  end
  return removed
end
