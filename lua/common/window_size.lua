-- No call looks at more waiters than this: see the README.
local window = 64
