-- The kinds that a hash names, in words.
local hash_kinds = {
  reentrant = 'a reentrant lock',
  read_write = 'a read-write lock',
  semaphore = 'a semaphore',
  latch = 'a latch',
}

-- found_kind(key): returns in words what KEYS[1] is (or that key), and the class of
-- redlatch::redisson for it, nil if there is none. Reads only a part of the key, since that may be
-- any program's data.
local function found_kind(key)
  local try, lock = redis.pcall, key or KEYS[1]
  local fields = try('HMGET', lock, 'kind', 'mode')
  if not fields.err then
    local kind, version = string.match(fields[1] or '', '^([%w_.-]+)(.*)$')
    if hash_kinds[kind or ''] or string.find(version or '', '^/%d+$') then
      return hash_kinds[kind] or 'a lock of kind ' .. kind
    elseif fields[2] == 'read' or fields[2] == 'write' then
      return 'a Redisson read-write lock', 'redlatch::redisson::ReadWriteLock'
    end
    -- A holder in Java is '<UUID>:<thread id>', and one in C++ '<32 hexadecimal digits>:<number>'.
    local field = try('HRANDFIELD', lock)
    local known = type(field) == 'string'  -- false if the user may not run this command
    local id = known and string.match(field, '^([%x-]+):%d+$')
    if not known then
      return 'a Redisson lock or another program\'s hash', 'redlatch::redisson::Lock'
    elseif id and (#id == 36 or #id == 32) then
      return 'a Redisson lock', 'redlatch::redisson::Lock'
    end
    return 'another program\'s hash'
  end

  local text = try('GETRANGE', lock, '0', '79')
  local id, rest = string.match(text.err and '' or text, '^(%x+):%d+(.*)$')
  if text.err then
    return 'another program\'s data'
  elseif id and #id == 32 and string.find(rest, '^[knw]?$') then
    return 'a simple lock or an election'
  elseif id and #id == 32 and string.find(rest, '^ %d+$') then
    return 'a quorum lock'
  elseif string.find(text, '^%-?%d+$') and try('PTTL', lock) == -1 then
    return 'a Redisson semaphore or latch',
      'redlatch::redisson::Semaphore or redlatch::redisson::CountDownLatch'
  end
  return 'another program\'s string'
end
