-- give_back_tokens(fence, used, reserved): where the block that ends with `reserved` was the last
-- one, the tokens behind `used` can be reserved anew. Answers the fence. Its TTL stays, which is
-- that of the larger value.
local function give_back_tokens(fence, used, reserved)
  if fence ~= reserved or used < 0 or used >= reserved then
    return fence
  end
  redis.call('SET', KEYS[4], string.format('%.0f', used), 'KEEPTTL')
  return used
end
