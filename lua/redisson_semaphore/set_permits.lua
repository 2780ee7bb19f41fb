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
local how = ARGV[1]
local all = (free or 0) + redis.call('ZCARD', taken)
local more = how == 'set' and ARGV[2] - all or tonumber(ARGV[2])
if free and (how == 'free' or how == 'try' or more == 0) then
  return free + redis.call('ZCOUNT', taken, 0, now_ms()) .. ' kept'  -- also those that are over
elseif how == 'free' then
  return '0 kept'
end
if not free then
  redis.call('DEL', taken)  -- those of a semaphore that was deleted
end
local now_free = redis.call('INCRBY', KEYS[1], free and more or ARGV[2])
redis.call('PUBLISH', named('redisson_sc'), string.format('%.0f', now_free))
return string.format('%.0f set', now_free)
