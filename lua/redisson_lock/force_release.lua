-- For people: ends any grant, also of a Java program, and tells the waiters. A Java holder is not
-- told: its watchdog finds out.
--
-- KEYS   1 to 4 as acquire's; 5 redisson.yield; 6 rw.readers
-- ARGV   1 the grant channels' prefix before the client id; the last as acquire's
-- reply  { 'released', 0, grant ... } or { 'free', 0 }
-- include: redisson_lock/common/read_fields
-- include: redisson_lock/common/tell_forced
-- include: redisson_lock/common/tell

local fields, refused = read_fields('a Redisson lock')
if refused then
  return refused
end
if #fields == 0 then
  return {'free', 0}
end
redis.call('DEL', KEYS[1])
local told = tell_forced(fields)
tell()
return {'released', 0, unpack(told)}
