-- since(token, now): returns the time of a grant as text, from its first token, which is the
-- server's time in us give or take some ms. Returns '0' if there is no token.
local function since(token, now)
  return string.format('%.0f', math.min(tonumber(token) or 0, now))
end
