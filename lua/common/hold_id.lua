-- client_of(text): the client id in a hold id; nil where the text is no hold id.
local function client_of(text)
  local client = string.match(text, '^([0-9a-f]+):%d+$')
  return client and #client == 32 and client or nil
end
