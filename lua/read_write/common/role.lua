-- set_role(request): parses the owner of a request or a waiter. For a reader, sets `reader`, and
-- the write grant that it reads `under`. For a writer, sets its `writer` name, and `fair` if it is
-- phase-fair, which is recorded as 'fair:<owner>'.
local function set_role(request)
  local role, rest = string.match(request.owner, '^(%l+):(.*)$')
  request.reader = role == 'read' or role == 'nest'
  request.fair = role == 'fair'
  if role == 'nest' then
    request.under = string.match(rest, '^%d+:(.*)$')
  elseif not request.reader then
    request.writer = request.fair and rest or request.owner
  end
  return request
end
