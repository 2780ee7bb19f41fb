-- client_of(text): the client id in a grant id; nil where the text is no grant id of this version
-- of the protocol. A `k` ends the id of a grant that its owner may keep.
local function client_of(text)
  local client = string.match(text, '^([0-9a-f]+):%d+k?$')
  return client and #client == 32 and client or nil
end
