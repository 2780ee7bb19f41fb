-- The value of the lock's key while the lock is free and clients wait for it: see leave_free().
local placeholder = 'redlatch:free'
