-- A request that comes after its acquire was given up: see KEYS 5 in lua/README.md.
if redis.call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end
