-- So many holders are listed by inspect, which else could hold up everybody.
local most_holders = 100
