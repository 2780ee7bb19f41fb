-- For people: who has this node's vote, and who waits. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; 5 whose turn it is
-- ARGV   1 the most waiters to list
-- reply  as the simple lock's, but 'quorum'
-- include: common/time
-- include: common/hold_id
-- include: common/since
-- include: common/list_waiters
-- include: quorum/common/read_holder

local holders = {}
local holder = read_holder()
local fence = redis.call('GET', KEYS[4]) or '0'
if holder ~= '' then
  local client = client_of(holder)
  holders[1] = {holder, client or '', redis.call('PTTL', KEYS[1]), 1,
    client and since(fence, now_us()) or '0'}
end
return {
  'quorum',
  fence,
  holders,
  redis.call('ZCARD', KEYS[2]),
  list_waiters(tonumber(ARGV[1])),
  #holders,
}
