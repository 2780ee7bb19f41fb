-- quarantine(opens_the_way): for how many ms more nobody is to be granted anything; 0: there is no
-- quarantine. After a server was promoted there is one, until every lease that the one before it
-- can have granted is over. And an error, to be replied, where others count another quarantine.
--
-- Who reigns is known by the id of the server's replication stream, which each promotion renews.
-- The caller tells the id that it knows; where the key has another, the server itself is asked. A
-- script whose other writes must pass where memory is full `opens_the_way`.
--
-- KEYS   the last one is taken away: '<replication id> <until_ms> <quarantine_ms>'
-- ARGV   so are the last two: the id that the caller knows, and quarantine_ms
local function quarantine(opens_the_way)
  local reign_key = table.remove(KEYS)
  local quarantine_ms, known = table.remove(ARGV), table.remove(ARGV)
  local id, until_ms, stored_ms = string.match(redis.call('GET', reign_key) or '',
    '^(%x+) (%d+) (%d+)$')
  if id and stored_ms ~= quarantine_ms then
    return 0, redis.error_reply('REFUSED this program asks for a quarantine of ' .. quarantine_ms ..
      ' ms, and others that use this server for one of ' .. stored_ms ..
      ' ms; say the same everywhere (quarantine= in the URL)')
  end
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  if id ~= known then
    local true_id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
    if id ~= true_id then
      until_ms = string.format('%.0f', now_ms + quarantine_ms)
    end
    -- 30 days, and again each day.
    if id ~= true_id or redis.call('PTTL', reign_key) < 2505600000 then
      if opens_the_way then
        redis.call('PEXPIRE', reign_key, '2592000000')
      end
      redis.call('SET', reign_key, true_id .. ' ' .. until_ms .. ' ' .. quarantine_ms, 'PX',
        '2592000000')
    end
  end
  return math.max(0, until_ms - now_ms)
end
