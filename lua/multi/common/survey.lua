-- include: common/read_fence
-- include: multi/common/names

-- all_keys(place): the keys of all names at this place.
local function all_keys(place)
  local found = {}
  for i, name in ipairs(names) do
    found[i] = name[place]
  end
  return found
end

-- find_waiter(all, grant): sets the grant's `record` and its `rank` in the queue of each name, nil
-- if it has none.
local function find_waiter(all, grant)
  local command = redis.call
  for i, name in ipairs(all) do
    local its = names[i]
    name.record = command('HGET', its[3], grant) or nil
    name.rank = name.record and command('ZRANK', its[2], grant) or nil
  end
end

-- survey(grant): for each name its `holder` ('' and `free` if there is none), whether the grant has
-- it (`mine`), find_waiter()'s results, how many are `waiting`, and the `fence`; then how many
-- names the grant has. Refuses a key of another type before the first write.
local function survey(grant)
  local command = redis.call
  local all, held, absent = {}, 0, 0
  for i, its in ipairs(names) do
    -- Only a part is read, since another program's value may be large.
    local holder = command('GETRANGE', its[1], '0', '63')
    all[i] = {
      holder = holder,
      free = holder == '',
      mine = holder == grant,
      waiting = command('ZCARD', its[2]),
      fence = read_fence(its[4]),
    }
    held = held + (holder == grant and 1 or 0)
    absent = absent + (holder == '' and 1 or 0)
  end
  if absent > 0 and command('EXISTS', unpack(all_keys(1))) + absent > #names then
    for i, name in ipairs(all) do  -- a value may be empty
      name.free = name.free and command('EXISTS', names[i][1]) == 0
    end
  end
  find_waiter(all, grant)
  return all, held
end
