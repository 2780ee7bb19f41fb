-- probation(key, known, length_ms, ask, wanted, opens_the_way): for how many ms more a server
-- grants nothing, since it has become another, or has come back as another than it was: until all
-- that it can have granted, or lost, before is over. And an error, to be replied, where others
-- `wanted` another length; else nil, and until when, in ms.
--
-- Which one it is the key remembers, '<id> <until_ms> <length_ms>', and the caller knows: where the
-- two differ, ask() tells the server's own. A script whose other writes must pass where memory is
-- full `opens_the_way`. A client's clock plays no part.
local function probation(key, known, length_ms, ask, wanted, opens_the_way)
  local id, until_ms, stored_ms = string.match(redis.call('GET', key) or '',
    '^(%x+) (%d+) (%d+)$')
  if id and stored_ms ~= length_ms then
    return 0, redis.error_reply('REFUSED this program asks for a ' .. wanted[1] .. ' of ' ..
      length_ms .. ' ms, and others that use this server for one of ' .. stored_ms ..
      ' ms; say the same everywhere (' .. wanted[2] .. '= in the URL)')
  end
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  if id ~= known then
    local true_id = ask()
    if id ~= true_id then
      until_ms = string.format('%.0f', now_ms + length_ms)
    end
    -- 30 days, and again each day.
    if id ~= true_id or redis.call('PTTL', key) < 2505600000 then
      if opens_the_way then
        redis.call('PEXPIRE', key, '2592000000')
      end
      redis.call('SET', key, true_id .. ' ' .. until_ms .. ' ' .. length_ms, 'PX', '2592000000')
    end
  end
  return math.max(0, until_ms - now_ms), nil, tonumber(until_ms)
end
