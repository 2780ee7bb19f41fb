-- include: common/read_fence

-- reserve_tokens(fence, block, now, range): reserves `block` tokens for the grant and returns the
-- first. The key lives for 24 hours after the period of 100 s in which the last token lies. Within
-- a period the TTL is not written, since writing it costs as much as writing the value. `range` is
-- for a renewal that reserves tokens: see read_fence().
local function reserve_tokens(fence, block, now, range)
  local first = fence < now and now or fence + 1
  local last = first + block - 1
  local first_text = string.format('%.0f', first)
  local last_text = last == first and first_text or string.format('%.0f', last)
  local period = last - last % 100000000
  if range then
    last_text = last_text .. string.format(' %.0f ', range.known) .. range.grant
  end
  if period <= fence and fence < now then
    redis.call('SET', KEYS[4], last_text, 'KEEPTTL')
  else
    redis.call('SET', KEYS[4], last_text, 'PXAT', string.format('%.0f', period / 1000 + 86500000))
  end
  return first_text
end
