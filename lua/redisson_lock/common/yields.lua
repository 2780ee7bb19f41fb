-- yields(terms, client, yield): returns how long this client lets others go first, in ms, or nil.
local function yields(terms, client, yield)
  return string.match(terms, '^%d+ %d+ 1') and redis.call('GET', yield) == client and
    math.max(redis.call('PTTL', yield), 0) or nil
end
