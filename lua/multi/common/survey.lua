-- include: common/read_fence
-- include: multi/common/names

-- all_keys(place): the keys of all names that stand at this place.
local function all_keys(place)
  local found = {}
  for i, name in ipairs(names) do
    found[i] = name[place]
  end
  return found
end

-- find_waiter(all, hold): sets of each name the grant's `record` and its `rank` in the queue, nil
-- if it has none.
local function find_waiter(all, hold)
  local command = redis.call
  for i, name in ipairs(all) do
    local its = names[i]
    name.record = command('HGET', its[3], hold) or nil
    name.rank = name.record and command('ZRANK', its[2], hold) or nil
  end
end

-- survey(hold): of each name its `holder`, '' and `free` if there is none, whether the grant has it
-- (`mine`), what find_waiter() says of the grant, how many are `waiting`, and the `fence`. Answers
-- how many names the grant has as well. Refuses a key of another type before anything is written.
local function survey(hold)
  local command = redis.call
  local all, held, absent = {}, 0, 0
  for i, its in ipairs(names) do
    -- A part of the holder's id at most: another program's value may be large.
    local holder = command('GETRANGE', its[1], '0', '63')
    all[i] = {
      holder = holder,
      free = holder == '',
      mine = holder == hold,
      waiting = command('ZCARD', its[2]),
      fence = read_fence(its[4]),
    }
    held = held + (holder == hold and 1 or 0)
    absent = absent + (holder == '' and 1 or 0)
  end
  if absent > 0 and command('EXISTS', unpack(all_keys(1))) + absent > #names then
    for i, name in ipairs(all) do  -- a value may be empty
      name.free = name.free and command('EXISTS', names[i][1]) == 0
    end
  end
  find_waiter(all, hold)
  return all, held
end
