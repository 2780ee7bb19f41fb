-- give_back_tokens(fence, used, reserved): if the block that ends with `reserved` was the last one,
-- its tokens after `used` can be reserved again. Returns the fence. The TTL stays as it is.
local function give_back_tokens(fence, used, reserved)
  if fence ~= reserved or used < 0 or used >= reserved then
    return fence
  end
  redis.call('SET', KEYS[4], string.format('%.0f', used), 'KEEPTTL')
  return used
end
