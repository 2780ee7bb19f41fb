-- young(run_id, delay_ms, opens_the_way): for how many ms more this node has no vote, since it
-- started lately: it may have lost what it granted before, or have brought back what was over. And
-- an error, to be replied, where others count another delay. A delay of '0' is none.
--
-- The node's key remembers which run of the server it has seen, by the run id: whoever finds
-- another one there starts the time. A clock that is stepped, or a client that has just come,
-- changes nothing. `opens_the_way`: as quarantine's.
--
-- KEYS   with a delay, the last one is taken away: '<run id> <until_ms> <delay_ms>'
local function young(run_id, delay_ms, opens_the_way)
  if delay_ms == '0' then
    return 0
  end
  local node_key = table.remove(KEYS)
  local id, until_ms, stored_ms = string.match(redis.call('GET', node_key) or '',
    '^(%x+) (%d+) (%d+)$')
  if id and stored_ms ~= delay_ms then
    return 0, redis.error_reply('REFUSED this program asks for a restart delay of ' .. delay_ms ..
      ' ms, and others that use this server for one of ' .. stored_ms ..
      ' ms; say the same everywhere (restart_delay= in the URL)')
  end
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  if id ~= run_id then
    local true_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
    if id ~= true_id then
      until_ms = string.format('%.0f', now_ms + delay_ms)
    end
    -- 30 days, and again each day.
    if id ~= true_id or redis.call('PTTL', node_key) < 2505600000 then
      if opens_the_way then
        redis.call('PEXPIRE', node_key, '2592000000')
      end
      redis.call('SET', node_key, true_id .. ' ' .. until_ms .. ' ' .. delay_ms, 'PX', '2592000000')
    end
  end
  return math.max(0, until_ms - now_ms)
end
