-- include: common/fence

-- deaf_note(channel): what a client that keeps a hold must know: nobody can ask it for that.
local function deaf_note(channel)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] == 0 and ' deaf' or ''
end

-- stays(expiry_us, waiting, channel, now): what renew answers of a hold that may be kept and ends
-- then: how many wait, the last token that is its own, and whether it is deaf. It may hand out
-- tokens as fast as the clock runs, so those up to its end are its own: whoever comes when it has
-- ended without a word finds the fence behind the clock.
local function stays(expiry_us, waiting, channel, now)
  local fence = read_fence()
  local first = math.max(fence + 1, now)
  if fence < expiry_us then
    reserve_tokens(fence, expiry_us - first + 1, now)
    fence = expiry_us
  end
  return string.format('held %d %.0f', waiting, fence) .. deaf_note(channel)
end
