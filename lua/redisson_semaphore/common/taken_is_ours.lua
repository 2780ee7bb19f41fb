-- include: redisson_semaphore/common/taken
-- True if that set is redlatch's own.
local taken_is_ours = string.match(taken, ':redisson%.permits$')
