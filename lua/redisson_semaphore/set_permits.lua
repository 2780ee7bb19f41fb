-- Sets or changes the number of permits.
--
-- KEYS   1 to 4 as acquire's; 5 redisson.yield; 6 rw.readers; 7 the permits that programs have
-- ARGV   1 'try' (only if none is set), 'set' (free and taken together), 'add' (also a negative
--        number) or 'free' (changes nothing)  2 the number; the last as acquire's
-- reply  '<free> set' or '<free> kept'
-- include: redisson_lock/common/read_number
-- include: redisson_semaphore/common/taken
-- include: redisson_lock/common/named
-- include: redisson_lock/common/now_ms

local free, refused = read_number('a Redisson semaphore')
if refused then
  return refused
end
local how, number = ARGV[1], tonumber(ARGV[2])
if how == 'free' or (free and how == 'try') then
  local over = free and redis.call('ZCOUNT', taken, '-inf', now_ms()) or 0
  return (over > 0 and string.format('%.0f', free + over) or free or '0') .. ' kept'
end
local more = how == 'set' and free and number - redis.call('ZCARD', taken) - free or number
local now_free = (free or 0) + more
if math.abs(now_free) > 2147483647 then
  return redis.error_reply('REFUSED ' .. KEYS[1] .. ' with ' .. string.format('%.0f', now_free) ..
    ' free permits is not possible; it must be what Java can count (2147483647)')
end
if not free then
  redis.call('DEL', taken)  -- those of a semaphore that was deleted
elseif more == 0 then
  return free .. ' kept'
end
redis.call('INCRBY', KEYS[1], more)
redis.call('PUBLISH', named('redisson_sc'), string.format('%.0f', now_free))
return string.format('%.0f set', now_free)
