-- secret_of(waiter): returns the secret that proves to its client that a message comes from this
-- node, nil if the waiter wants no vote by message. It follows the owner in the waiter's record,
-- and is shorter than a client id, which ends other records.
local function secret_of(waiter)
  local secret = string.match(waiter.record, ' (%x+)$')
  return secret and #secret == 16 and secret or nil
end
