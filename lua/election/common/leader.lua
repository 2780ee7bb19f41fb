-- include: election/common/keys
-- include: simple/common/holder

-- The leader: { grant, epoch, revision, since, value }, or nil. Its record is '<grant> <epoch>
-- <revision> <since_us> <value>' and counts only while its grant has the lock.
local leader
do
  local grant, epoch, revision, since, value = string.match(redis.call('GET', leader_key) or '',
    '^(%S+) (%d+) (%d+) (%d+) (.*)$')
  if grant == holder then
    leader = {grant = grant, epoch = epoch, revision = revision, since = since, value = value}
  end
end
