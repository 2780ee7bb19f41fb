-- include: common/found_kind

-- wrong_kind(expected, failed, key): returns the error if KEYS[1] (or that key) is not `expected`,
-- such as 'a simple lock'. `failed` is the error of the command that should have read the key, or
-- nil. It is returned unchanged if it is not about the key's type.
local function wrong_kind(expected, failed, key)
  if failed and string.sub(failed.err, 1, 9) ~= 'WRONGTYPE' then
    return failed
  end
  local words, class = found_kind(key)
  return redis.error_reply('WRONGTYPE ' .. (key or KEYS[1]) .. ' is in use as ' .. words ..
    ', not as ' .. expected .. '; use another name' .. (class and ', or ' .. class or ''))
end
