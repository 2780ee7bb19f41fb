-- For people: ends whatever grants there are of any of the names, foreign ones too, tells their
-- clients, and hands each name to the next waiter.
--
-- KEYS   1 to 4 of each name, as in lua/README.md
-- ARGV   1 what a grant channel begins with, before the client id  2 'more': only hand on
-- reply  { 'released', look_ms, grant ... }, { 'free', look_ms } or { 'told', look_ms }
-- include: common/time
-- include: common/hold_id
-- include: multi/common/pass_on

local all = survey('')
local reply, told = {'free', 0}, {}
for i, name in ipairs(all) do
  turn_to(i)
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
pass_on(all, now_us())
reply[2] = unfinished and 1 or look_ms or 0
return reply
