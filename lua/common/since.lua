-- since(token, now): when a grant got its lock, as text, by the token that it was given then: that
-- was the server's time in us, but for some ms where a block was reserved. '0' where there is none.
local function since(token, now)
  return string.format('%.0f', math.min(tonumber(token) or 0, now))
end
