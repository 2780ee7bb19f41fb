-- inspect lists at most this many holders, so that it delays other clients only briefly.
local most_holders = 100
