-- include: common/probation

-- young(run_id, delay_ms, opens_the_way): for how many ms more this node has no vote, since it
-- started lately: it may have lost what it granted before, or have brought back what was over. And
-- an error, to be replied, where others count another delay. A delay of '' is none.
--
-- Which run of the server it is is known by the run id. A clock that is stepped, or a client that
-- has just come, changes nothing.
--
-- KEYS   with a delay, the last one is taken away: '<run id> <until_ms> <delay_ms>'
local function young(run_id, delay_ms, opens_the_way)
  if delay_ms == '' then
    return 0
  end
  return probation(table.remove(KEYS), run_id, delay_ms, function()
    return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  end, {'restart delay', 'restart_delay'}, opens_the_way)
end
