-- owner_of(record): returns the owner in a waiter's record ('' for none), and how many tokens or
-- permits the waiter asks for. It parses less than parse_waiter(), which describes the record.
local function owner_of(record)
  local amount, size, rest = string.match(record or '',
    '^%d+ %d+ (%d+) %d+ [12] %d+ [01] %d+ %d+ [01] %S+ (%d+) (.*)$')
  return size and string.sub(rest, 1, size) or '', tonumber(amount) or 1
end
