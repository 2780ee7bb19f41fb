-- identify(bid): what its owner tells of a request or a waiter: whether it is a `reader`, and the
-- write grant that it reads `under`; of a writer, who the `writer` is and whether it is `fair` to
-- phases. A fair one is recorded as 'fair:<owner>'.
local function identify(bid)
  local role, rest = string.match(bid.owner, '^(%l+):(.*)$')
  bid.reader = role == 'read' or role == 'nest'
  bid.fair = role == 'fair'
  if role == 'nest' then
    bid.under = string.match(rest, '^%d+:(.*)$')
  elseif not bid.reader then
    bid.writer = bid.fair and rest or bid.owner
  end
  return bid
end
