-- For people: ends every grant of any of the names, even foreign ones, tells their clients, and
-- hands each name to its next waiter.
--
-- KEYS   1 to 4 of each name, as in lua/README.md
-- ARGV   as simple/force_release's
-- reply  { 'released', check_ms, grant ... }, { 'free', check_ms } or { 'told', check_ms }
-- include: common/time
-- include: common/grant_id
-- include: multi/common/pass_on

survey('')
local reply, told = {'free', 0}, {}
for _, name in ipairs(names) do
  select_name(name)
  if not name.free then
    reply[1] = ARGV[2] == 'more' and 'told' or 'released'
  end
  if not name.free and ARGV[2] ~= 'more' then
    redis.call('DEL', KEYS[1])
    if not told[name.holder] then
      reply[#reply + 1] = name.holder
      told[name.holder] = true
      local client = client_of(name.holder)
      if client then
        redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. name.holder .. ' ' .. KEYS[1])
      end
    end
    name.free = true
  end
end
pass_on(now_us())
reply[2] = unfinished and 1 or check_ms or 0
return reply
