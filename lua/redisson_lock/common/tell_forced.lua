-- include: common/grant_id
-- tell_forced(fields): tells redlatch's clients that they have lost the lock. Returns their grants.
local function tell_forced(fields)
  local told = {}
  for _, field in ipairs(fields) do
    local grant = string.match(field, '^(%x+:%d+)')
    local client = grant and client_of(grant)
    if client then
      redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. grant .. ' ' .. KEYS[1])
      told[#told + 1] = grant
    end
  end
  return told
end
