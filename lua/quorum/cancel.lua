-- Gives up a grant: removes it from the queue or, if it was granted, ends it. Invites the next live
-- waiter.
--
-- KEYS   as acquire's, except the node's run
-- ARGV   1 grant  2 gone_ms  3 amount, which is not used: other nodes may have used these tokens
--        4 the attempt that is given up, so that a later one keeps its vote; nothing for all
--        5 for a forced release: the grant channels' prefix, to tell the grant's client
-- reply  'left' (it was queued), 'passed_on' (it was granted) or 'unknown', and notes
-- include: common/time
-- include: common/grant_id
-- include: common/leave
-- include: quorum/common/pass_on
-- include: quorum/common/read_holder

local holder, attempt = read_holder()
local held = holder == ARGV[1]
local given_up = tonumber(ARGV[4] or '')
if given_up then
  local recorded = read_waiter(ARGV[1])
  if math.max(held and attempt or 0, recorded and recorded.attempt or 0) > given_up then
    return 'unknown'
  end
end
if held then
  redis.call('DEL', KEYS[1])
  local client = ARGV[5] and client_of(ARGV[1])
  if client then
    redis.call('PUBLISH', ARGV[5] .. client, 'forced ' .. ARGV[1] .. ' ' .. KEYS[1])
  end
end
local outcome = leave(ARGV[1], ARGV[2]) and 'left' or 'unknown'
local free = redis.call('EXISTS', KEYS[1]) == 0
return (held and 'passed_on' or outcome) .. (free and pass_on(now_us(), ARGV[1]) or '')
