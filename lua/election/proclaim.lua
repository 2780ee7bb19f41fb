-- Replaces the leader's value, and tells the observing clients.
--
-- KEYS   1 to 4 as acquire's; then the leader's record, and the observers
-- ARGV   1 the epoch, which proves the term  2 revision  3 value
-- reply  'held', even if this revision or a later one is known already; or 'not_held'
-- include: election/common/leader
-- include: election/common/state_of
-- include: election/common/tell

if not leader or leader.epoch ~= ARGV[1] then
  return 'not_held'
end
if tonumber(leader.revision) < tonumber(ARGV[2]) then
  leader.revision, leader.value = ARGV[2], ARGV[3]
  redis.call('PEXPIRE', leader_key, '1', 'GT')  -- lets the SET pass if memory is full
  redis.call('SET', leader_key, leader.grant .. ' ' .. leader.epoch .. ' ' .. leader.revision ..
    ' ' .. leader.since .. ' ' .. leader.value, 'KEEPTTL')
  tell(state_of(leader))
end
return 'held'
