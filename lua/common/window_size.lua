-- A script reads at most this many waiters: see the README.
local window = 64
