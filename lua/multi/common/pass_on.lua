-- include: common/settle

-- pass_on(fence, now): gives the present name, which is free, to whoever is next. Answers the look
-- that the caller is asked for.
local function pass_on(fence, now)
  if redis.call('EXISTS', KEYS[2]) == 0 then
    return ''
  end
  local _, look = settle(choose(nil, now), fence, now)
  return look
end
