-- include: common/wrong_kind

-- other_kind(fields, kind): returns the error for a hash whose first field, `kind`, is fields[1] (or
-- none), or for HMGET's error, where `kind` was expected, which is '<kind>/<protocol version>'.
-- Version 1 wrote no number.
local function other_kind(fields, kind)
  local name, version = string.match(kind, '^([%l_]+)/(%d+)$')
  local its_name, its_version = string.match((fields[1] or '') .. '/1', '^([%l_]+)/(%d+)')
  if its_name == name and its_version ~= version then
    return redis.error_reply('REFUSED it is in use by protocol ' .. its_version ..
      ', and this program speaks protocol ' .. version .. '; drain it, then upgrade: stop all ' ..
      'programs that use it, and start them with one version of redlatch (docs/upgrading.md)')
  end
  return wrong_kind(hash_kinds[name], fields.err and fields)
end
