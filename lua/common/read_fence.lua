-- read_fence(): the largest token that can have been handed out, 0 where none is known. If a
-- renewal reserved the last of them, also whose those are, { hold, known }: all behind `known`, the
-- last that the hold had before, are that hold's alone. KEYS[4] is '<fence>', or
-- '<fence> <known> <hold>'.
local function read_fence()
  local text = redis.call('GET', KEYS[4]) or '0'
  local fence, known, hold = tonumber(text), nil, nil
  if not fence then
    fence, known, hold = string.match(text, '^(%d+) (%d+) (%S+)$')
    fence = tonumber(fence)
  end
  if fence and fence >= 0 and fence < 9e15 and fence % 1 == 0 then
    return fence, hold and {hold = hold, known = tonumber(known)}
  end
  error(redis.error_reply('WRONGTYPE ' .. KEYS[4] .. ' holds something that is no fencing token'))
end
