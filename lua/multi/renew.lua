-- Extends a grant of all names, and never shortens it.
--
-- KEYS   1 to 4 of each name, as in lua/README.md
-- ARGV   1 grant  2 lease_ms
-- reply  'held' or, if one name is not held, 'not_held'
-- include: multi/common/read_holder

for i = 1, #KEYS, 4 do
  if read_holder(KEYS[i]) ~= ARGV[1] then
    return 'not_held'
  end
end
for i = 1, #KEYS, 4 do
  if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
return 'held'
