-- If the grant has this node, raises the fence, so that the node never again issues a token up to
-- the grant's last one. Or heals a node that lost a grant which a majority has.
--
-- KEYS   as acquire's, except the node's run
-- ARGV   1 grant  2 its last token  3 lease_ms of a grant to be healed, else '0'  4 its attempt
-- reply  'raised'; 'above' if this node issued a larger token, which is still on its way; or
--        'not_held'
-- include: common/fence
-- include: common/remove_waiter
-- include: quorum/common/is_held_by

if not is_held_by(ARGV[1]) then
  if ARGV[3] == '0' or redis.call('EXISTS', KEYS[1], KEYS[5]) > 0 then
    return 'not_held'
  end
  remove_waiter(ARGV[1])
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[4], 'PX', ARGV[3])
  -- No waiter gets a majority while the grant stands, so no waiter needs the node.
  redis.call('DEL', KEYS[6])
end
local fence, last = read_fence(), tonumber(ARGV[2])
if fence > last and ARGV[3] == '0' then
  return 'above'
end
if fence < last then
  redis.call('PEXPIRE', KEYS[1], '1', 'GT')  -- lets the SET pass if memory is full
  reserve_tokens(fence, 1, last)
end
return 'raised'
