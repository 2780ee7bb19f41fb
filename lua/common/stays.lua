-- include: common/fence

-- deaf_note(channel): what a client that keeps a grant must know: no message can recall it.
local function deaf_note(channel)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] == 0 and ' deaf' or ''
end

-- stays(expiry_us, waiting, channel, now): what renew answers of a grant that may be kept and ends
-- then: how many wait, the last token that is its own, and whether no message reaches it. It may
-- hand out tokens as fast as the clock runs, so those up to its end are its own: a client that
-- comes when it has expired finds the fence behind the clock.
--
-- Not if others have had tokens behind ARGV[4], the last that its client knows: those that it would
-- get do not follow its own. The answer is 0 then.
local function stays(expiry_us, waiting, channel, now)
  local fence, range = read_fence()
  local known = tonumber(ARGV[4])
  if not range or range.hold ~= ARGV[1] then
    range = fence == known and {hold = ARGV[1], known = known}
  elseif known < range.known then
    range = nil
  end
  if range and fence < expiry_us then
    reserve_tokens(fence, expiry_us - math.max(fence + 1, now) + 1, now, range)
    fence = expiry_us
  end
  return string.format('held %d %.0f', waiting, range and fence or 0) .. deaf_note(channel)
end
