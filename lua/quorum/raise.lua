-- Sees to it that no token up to the grant's last one is given again by this node, where that grant
-- stands; or heals a node that has lost a grant which a majority has.
--
-- KEYS   as acquire's, but for the node's run
-- ARGV   1 grant  2 its last token  3 lease_ms of a grant to be healed, else '0'  4 its attempt
-- reply  'raised'; 'above' where this node has granted a larger one, which is still on its way; or
--        'not_held'
-- include: common/fence
-- include: common/time
-- include: common/remove_waiter
-- include: quorum/common/is_held_by
-- include: quorum/common/turn_of

if not is_held_by(ARGV[1]) then
  if ARGV[3] == '0' or redis.call('EXISTS', KEYS[1], KEYS[5]) > 0 then
    return 'not_held'
  end
  -- A node whose turn a waiter has is not healed.
  local turn, left_ms = turn_of(now_us())
  if turn and left_ms > 0 then
    return 'not_held'
  end
  remove_waiter(ARGV[1])
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[4], 'PX', ARGV[3])
end
local fence, last = read_fence(), tonumber(ARGV[2])
if fence > last and ARGV[3] == '0' then
  return 'above'
end
if fence < last then
  reserve_tokens(fence, 1, last)
end
return 'raised'
