-- read_fence(key, text): returns the largest token that may be in use, 0 if none is known. If a
-- renewal reserved tokens, it also returns their range { grant, known }: the tokens after `known`
-- belong to that grant only. The key (KEYS[4] by default) is '<fence>' or '<fence> <known>
-- <grant>'. `text` is its value if the caller has read it.
local function read_fence(key, text)
  text = text or redis.call('GET', key or KEYS[4]) or '0'
  local fence, known, grant = tonumber(text), nil, nil
  if not fence then
    fence, known, grant = string.match(text, '^(%d+) (%d+) (%S+)$')
    fence = tonumber(fence)
  end
  if fence and fence >= 0 and fence < 9e15 and fence % 1 == 0 then
    return fence, grant and {grant = grant, known = tonumber(known)}
  end
  error(redis.error_reply('WRONGTYPE ' .. (key or KEYS[4]) ..
    ' holds something that is no fencing token'))
end
