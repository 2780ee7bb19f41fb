-- read_fence(key, text): the largest token that can have been handed out, 0 if none is known. If a
-- renewal reserved the last of them, also the grant that has them, { grant, known }: all behind
-- `known`, the last that the grant had before, are that grant's alone. The key, KEYS[4] if it is
-- left out, is '<fence>', or '<fence> <known> <hold>'; `text` is its value, if that was read
-- before.
local function read_fence(key, text)
  text = text or redis.call('GET', key or KEYS[4]) or '0'
  local fence, known, hold = tonumber(text), nil, nil
  if not fence then
    fence, known, hold = string.match(text, '^(%d+) (%d+) (%S+)$')
    fence = tonumber(fence)
  end
  if fence and fence >= 0 and fence < 9e15 and fence % 1 == 0 then
    return fence, hold and {hold = hold, known = tonumber(known)}
  end
  error(redis.error_reply('WRONGTYPE ' .. (key or KEYS[4]) ..
    ' holds something that is no fencing token'))
end
