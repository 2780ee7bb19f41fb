-- include: common/give_back

-- give_back_kept(hold, fence, range, ending): give_back_tokens() of a grant that its client may
-- have kept. What a renewal has reserved of which that has not heard lies behind ending.reserved,
-- in the grant's own range: no thread has had it, and the fence does not stay ahead of the clock.
local function give_back_kept(hold, fence, range, ending)
  if range and range.hold == hold and ending.used > 0 and fence ~= ending.reserved then
    return give_back_tokens(fence, math.max(range.known, ending.used), fence)
  end
  return give_back_tokens(fence, ending.used, ending.reserved)
end
