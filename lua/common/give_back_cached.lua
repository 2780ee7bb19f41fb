-- include: common/give_back

-- give_back_cached(grant, fence, range, ending): does what give_back_tokens() does, for a grant
-- that its client may have cached. If the reply to a renewal was lost, the client does not know the
-- tokens that it reserved. They are in the grant's own range after ending.reserved. No thread has
-- used them, so this gives them back, too, and the fence does not stay ahead of the clock.
local function give_back_cached(grant, fence, range, ending)
  if range and range.grant == grant and ending.used > 0 and fence ~= ending.reserved then
    return give_back_tokens(fence, math.max(range.known, ending.used), fence)
  end
  return give_back_tokens(fence, ending.used, ending.reserved)
end
