-- include: common/probation

-- young(run_id, delay_ms): returns for how many more ms this node has no vote, since
-- it restarted: it may have lost grants, or restored some that are over. Also returns an error to
-- reply with if other clients use another delay. A delay of '' means none.
--
-- The run id identifies the run of the server. A clock step or a new client does not change it.
--
-- KEYS   with a delay, the last one is removed: '<run id> <until_ms> <delay_ms>'
local function young(run_id, delay_ms)
  if delay_ms == '' then
    return 0
  end
  return probation(table.remove(KEYS), run_id, delay_ms, function()
    return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  end, {'restart delay', 'restart_delay'})
end
