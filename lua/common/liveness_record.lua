-- The record (see common/parse_waiter) of a waiter at one name. Captures what decides if it is
-- live: asked_us, heartbeat_ms and channel.
local liveness_record = '^(%d+) %d+ %d+ %d+ 1 (%d+) [01] %d+ %d+ [01] (%S+) '
