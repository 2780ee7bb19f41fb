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
  local try, name = redis.pcall, key or KEYS[1]
  local marks = try('HMGET', name, 'kind', 'mode')
  if not marks.err then
    local its_kind, version = string.match(marks[1] or '', '^([%w_.-]+)(.*)$')
    if hash_kinds[its_kind or ''] or string.find(version or '', '^/%d+$') then
      return hash_kinds[its_kind] or 'a lock of kind ' .. its_kind
    elseif marks[2] == 'read' or marks[2] == 'write' then
      return 'a Redisson read-write lock', 'redlatch::redisson::ReadWriteLock'
    end
    -- A lock's only field is its holder: '<UUID>:<thread id>' in Java, and in C++ '<32 hexadecimal
    -- digits>:<number>'. An error means that the user may not run this command.
    local some = try('HRANDFIELD', name, 2)
    local id = #some == 1 and string.match(some[1], '^([%x-]+):%d+$')
    if some.err then
      return 'a Redisson lock or another program\'s hash', 'redlatch::redisson::Lock'
    elseif id and (#id == 36 or #id == 32) then
      return 'a Redisson lock', 'redlatch::redisson::Lock'
    end
    return 'another program\'s hash'
  end

  local text = try('GETRANGE', name, '0', '79')
  local id, rest = string.match(text.err and '' or text, '^(%x+):%d+(.*)$')
  if text == 'redlatch:free' then  -- see simple/common/give
    return 'a simple lock or an election'
  elseif text.err then
    return 'another program\'s data'
  elseif id and #id == 32 and string.find(rest, '^[knw]?$') then
    return 'a simple lock or an election'
  elseif id and #id == 32 and string.find(rest, '^ %d+$') then
    return 'a quorum lock'
  elseif #text <= 20 and string.find(text, '^%-?%d+$') and try('PTTL', name) == -1 then
    return 'a Redisson semaphore or latch',
      'redlatch::redisson::Semaphore or redlatch::redisson::CountDownLatch'
  end
  return 'another program\'s string'
end
