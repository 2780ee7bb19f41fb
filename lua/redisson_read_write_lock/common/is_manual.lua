local function is_manual(terms)
  return string.match(terms, '^%d+ %d+ %d %d+ (%d)') == '1'
end
