-- For people: ends any grant, also of a Java program, and tells the first waiter.
--
-- KEYS, ARGV and reply as redisson_lock/force_release's
-- include: redisson_lock/common/read_fields
-- include: redisson_lock/common/tell_forced
-- include: redisson_fair_lock/common/call_head

local fields, refused = read_fields('a Redisson lock', 'a Redisson fair lock')
if refused then
  return refused
end
if #fields > 0 then
  redis.call('DEL', KEYS[1])
end
local told = tell_forced(fields)
call_head()
return {#fields > 0 and 'released' or 'free', 0, unpack(told)}
