-- begin_yield(client, told, yield): `told` clients were told that they may ask. If there are
-- others than this one, it does not take the lock again for a moment: it would always be faster,
-- since its next request is already on its way.
local function begin_yield(client, told, yield)
  if told > tonumber(string.sub(ARGV[#ARGV], 1, 1)) then
    redis.call('SET', yield, client, 'PX', 5)
  end
end
