-- include: common/wrong_kind

-- other_kind(its_fields, expected): returns the error for a key that is no lock of the expected
-- kind, which is '<kind>/<protocol version>'. `its_fields`: what HMGET replied for its field `kind`
-- and others, or its error. Version 1 wrote no number.
local function other_kind(its_fields, expected)
  local its_kind, version = string.match(expected, '^([%l_]+)/(%d+)$')
  local other, its_version = string.match((its_fields[1] or '') .. '/1', '^([%l_]+)/(%d+)')
  if other == its_kind and its_version ~= version then
    return redis.error_reply('REFUSED it is in use by protocol ' .. its_version ..
      ', and this program speaks protocol ' .. version .. '; drain it, then upgrade: stop all ' ..
      'programs that use it, and start them with one version of redlatch (docs/upgrading.md)')
  end
  return wrong_kind(hash_kinds[its_kind], its_fields.err and its_fields)
end
