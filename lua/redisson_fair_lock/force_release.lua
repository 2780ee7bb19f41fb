-- For people: ends any grant, also of a Java program, and tells the first waiter.
--
-- KEYS, ARGV and reply as redisson_lock/force_release's
-- include: common/wrong_kind
-- include: redisson_lock/common/tell_forced
-- include: redisson_fair_lock/common/call_head

local fields = redis.pcall('HKEYS', KEYS[1])
if fields.err or redis.call('HEXISTS', KEYS[1], 'kind') == 1 then
  return wrong_kind('a Redisson fair lock', fields.err and fields)
end
if #fields > 0 then
  redis.call('DEL', KEYS[1])
end
local told = tell_forced(fields)
call_head()
return {#fields > 0 and 'released' or 'free', 0, unpack(told)}
