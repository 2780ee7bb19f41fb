-- is_manual(terms): a repeat does not extend the lease.
local function is_manual(terms)
  return string.match(terms, '^%d+ %d+ %d %d+ (%d)') == '1'
end
