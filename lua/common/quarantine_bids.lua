-- What comes next may be refused where memory is full.
local ends_hold = false
