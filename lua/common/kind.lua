-- other_kind(found, kind): returns the error for a hash of kind `found` (or none) where `kind` was
-- expected, which is '<kind>/<protocol version>'. Version 1 wrote no number.
local function other_kind(found, kind)
  local name, version = string.match(kind, '^([%l_]+)/(%d+)$')
  local its_name, its_version = string.match((found or '') .. '/1', '^([%l_]+)/(%d+)')
  if its_name == name and its_version ~= version then
    return redis.error_reply('REFUSED it is in use by protocol ' .. its_version ..
      ', and this program speaks protocol ' .. version .. '; drain it, then upgrade: stop all ' ..
      'programs that use it, and start them with one version of redlatch (docs/upgrading.md)')
  end
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is a hash, but no ' .. name ..
    ((name == 'reentrant' or name == 'read_write') and ' lock' or ''))
end
