-- read_fence(): the largest token that can have been handed out, 0 where none is known.
local function read_fence()
  local fence = tonumber(redis.call('GET', KEYS[4]) or 0)
  if fence and fence >= 0 and fence < 9e15 and fence % 1 == 0 then
    return fence
  end
  error(redis.error_reply('WRONGTYPE ' .. KEYS[4] .. ' holds something that is no fencing token'))
end
