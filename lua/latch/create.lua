-- Creates the latch, or joins an existing one.
--
-- KEYS   1 the latch: a hash, { kind = 'latch/2', incarnation, total, count }; 2 to 4 as in
--        lua/README.md; 5 a zset of the ids that have counted down, by when, in us
-- ARGV   1 total  2 ttl_ms  3 the incarnation of a new latch
-- reply  '<incarnation> <count>', or the error REFUSED if the latch has another total
-- include: latch/common/state
-- include: latch/common/touch

local latch = read_latch(tonumber(ARGV[2]))
if not latch then
  redis.call('HSET', KEYS[1], 'kind', 'latch/2', 'incarnation', ARGV[3], 'total', ARGV[1], 'count',
    ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- This key is left over from an earlier incarnation whose N was deleted.
  redis.call('UNLINK', counted_key)
  return ARGV[3] .. ' ' .. ARGV[1]
end
if latch.total ~= tonumber(ARGV[1]) then
  return redis.error_reply(
    string.format('REFUSED it was made with a count of %.0f, not of %.0f', latch.total, ARGV[1]))
end
touch(latch)
return latch.incarnation .. string.format(' %.0f', latch.count)
