-- The terms (see common/request) of the first attempt of a request that may wait: it has no ticket
-- yet, and does not ask whether its channel has a subscriber. Captures heartbeat_ms.
local first_attempt_terms = '^%d+ 1 1 (%d+) %d 0 %d+ 0 '
