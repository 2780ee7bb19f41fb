-- include: common/read_fence
-- include: multi/common/names
-- include: multi/common/read_holder

-- all_keys(field): returns one key of each name.
local function all_keys(field)
  local found = {}
  for i, name in ipairs(names) do
    found[i] = name[field]
  end
  return found
end

-- survey(grant): sets for each name its `holder` ('' and `free` if there is none), `mine` if the
-- grant has it, how many are `waiting`, the `fence`, and the grant's `record` and `rank` in the
-- queue, nil if it is not queued. Returns how many names the grant has. Refuses a key of another
-- type before the first write.
local function survey(grant)
  local command = redis.call
  local held, absent = 0, 0
  for _, name in ipairs(names) do
    local holder, has_placeholder = read_holder(name.lock)
    name.has_placeholder = has_placeholder
    name.holder, name.free, name.mine = holder, holder == '', holder == grant
    name.waiting = command('ZCARD', name.queue)
    name.fence = read_fence(name.fence_key)
    held = held + (holder == grant and 1 or 0)
    absent = absent + (holder == '' and 1 or 0)
  end
  if absent > 0 and command('EXISTS', unpack(all_keys('lock'))) + absent > #names then
    for _, name in ipairs(names) do  -- a value may be empty
      name.free = name.free and (name.has_placeholder or command('EXISTS', name.lock) == 0)
    end
  end
  for _, name in ipairs(names) do
    name.record = command('HGET', name.waiters, grant) or nil
    name.rank = name.record and command('ZRANK', name.queue, grant) or nil
  end
  return held
end
