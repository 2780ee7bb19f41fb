-- probation(key, known, length_ms, ask, setting): returns for how many more ms a
-- promoted or restarted server must not grant. By then, everything that its predecessor granted, or
-- that it forgot, has expired. Also returns an error to reply with if other clients use another
-- length, otherwise nil and the end in ms.
--
-- The key stores which server it was: '<id> <until_ms> <length_ms>'. If the caller knows another
-- id, ask() asks the server itself. No client's clock is involved.
local function probation(key, known, length_ms, ask, setting)
  local id, until_ms, stored_ms = string.match(redis.call('GET', key) or '',
    '^(%x+) (%d+) (%d+)$')
  if id and stored_ms ~= length_ms then
    return 0, redis.error_reply('REFUSED this program asks for a ' .. setting[1] .. ' of ' ..
      length_ms .. ' ms, and others that use this server for one of ' .. stored_ms ..
      ' ms; say the same everywhere (' .. setting[2] .. '= in the URL)')
  end
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  if id ~= known then
    local true_id = ask()
    if id ~= true_id then
      until_ms = string.format('%.0f', now_ms + length_ms)
    end
    -- 30 days, renewed daily.
    if id ~= true_id or redis.call('PTTL', key) < 2505600000 then
      redis.call('PEXPIRE', key, '2592000000')  -- lets the SET pass if memory is full
      redis.call('SET', key, true_id .. ' ' .. until_ms .. ' ' .. length_ms, 'PX', '2592000000')
    end
  end
  return math.max(0, until_ms - now_ms), nil, tonumber(until_ms)
end
