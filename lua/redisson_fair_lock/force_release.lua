-- For people: ends any grant, also of a Java program, and tells the first waiter.
--
-- KEYS, ARGV and reply as redisson_lock/force_release's; the second element of the reply is 1 if it
-- is to be called again, with 'more' as ARGV 2
-- include: redisson_lock/common/read_fields
-- include: redisson_lock/common/tell_forced
-- include: redisson_fair_lock/common/call_head

local fields, refused = read_fields('a Redisson lock', 'a Redisson fair lock')
if refused then
  return refused
end
if ARGV[2] == 'more' then  -- another holder may have come meanwhile
  fields = {}
end
if #fields > 0 then
  redis.call('DEL', KEYS[1])
end
local told = tell_forced(fields)
return {#fields > 0 and 'released' or 'free', call_head() and 1 or 0, unpack(told)}
