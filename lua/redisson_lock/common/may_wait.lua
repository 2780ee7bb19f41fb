-- may_wait(terms): the request may wait.
local function may_wait(terms)
  return string.match(terms, '^%d+ %d+ (%d)') == '1'
end
