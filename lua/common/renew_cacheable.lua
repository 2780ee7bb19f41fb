-- include: common/fence

-- unsubscribed_note(channel): returns the note that tells a client that no message can recall its
-- cached grant.
local function unsubscribed_note(channel)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] == 0 and ' deaf' or ''
end

-- renew_cacheable(expiry_us, waiting, channel, now): returns renew's reply for a grant that its
-- client may cache: how many wait, the last token that belongs to the grant, and a note if the
-- client is unsubscribed. The tokens up to the expiry are reserved for the grant, since its client
-- may issue one per microsecond. If the grant expires, the clock has passed them by then.
--
-- ARGV[4] is the last token that the client knows. If other grants have had tokens after that one,
-- nothing is reserved and the token is 0. ARGV[4] is -1 if the client wants no tokens to be
-- reserved.
local function renew_cacheable(expiry_us, waiting, channel, now)
  local fence, range = read_fence()
  local known = tonumber(ARGV[4])
  if not range or range.grant ~= ARGV[1] then
    range = fence == known and {grant = ARGV[1], known = known}
  elseif known < range.known then
    range = nil
  end
  if range and fence < expiry_us then
    reserve_tokens(fence, expiry_us - math.max(fence + 1, now) + 1, now, range)
    fence = expiry_us
  end
  return string.format('held %d %.0f', waiting, range and fence or 0) .. unsubscribed_note(channel)
end
