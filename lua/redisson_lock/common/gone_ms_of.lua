local function gone_ms_of(ending)
  return string.match(ending, '^%d+ %d+ (%d+)')
end
