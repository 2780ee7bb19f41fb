-- client_of(text): returns the client id in a grant id, nil if the text is not a grant id of this
-- protocol version. An id that ends with `k` belongs to a grant that its client may cache. One that
-- ends with `n` was acquired natively. A flag changes that `n` to `w`.
local function client_of(text)
  local client = string.match(text, '^([0-9a-f]+):%d+[knw]?$')
  return client and #client == 32 and client or nil
end
