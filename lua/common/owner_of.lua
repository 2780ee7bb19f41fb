-- owner_of(record): the owner that a record in KEYS[3] names, '' if there is none, and how many
-- tokens, or permits, that waiter wants: a few words of what parse_waiter() reads.
local function owner_of(record)
  local block, size, rest = string.match(record or '',
    '^%d+ %d+ (%d+) %d+ [12] %d+ [01] %d+ %d+ [01] %S+ (%d+) (.*)$')
  return size and string.sub(rest, 1, size) or '', tonumber(block) or 1
end
