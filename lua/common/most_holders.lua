-- inspect lists at most this many holders, so that it never delays others for long.
local most_holders = 100
