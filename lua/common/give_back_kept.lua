-- include: common/give_back

-- give_back_kept(hold, expiry_us, fence, ending, now): give_back_tokens() of a hold that ends then,
-- 0 if its owner has others, and that its client may have kept. What a renewal has reserved of
-- which that has not heard lies behind ending.reserved, and up to the end of the hold: nobody has
-- had it, and the fence does not stay ahead of the clock.
-- Not where an acquire is unanswered: it may have been granted anew, behind others whose
-- tokens lie there.
local function give_back_kept(hold, expiry_us, fence, ending, now)
  if ending.used > 0 and ending.gone_ms == '0' and ending.reserved < fence and now < fence and
      fence <= expiry_us and string.sub(hold, -1) == 'k' then
    return give_back_tokens(fence, math.max(ending.used, now), fence)
  end
  return give_back_tokens(fence, ending.used, ending.reserved)
end
