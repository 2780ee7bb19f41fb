-- include: redisson_semaphore/common/taken
local taken_is_ours = string.match(taken, ':redisson%.permits$')
