-- The record (see common/parse_waiter) of a waiter that a fast path makes the owner: it wants one
-- token or permit, at one name. Captures asked_us, attempt, heartbeat_ms, claim_ms and channel.
local next_waiter_record = '^(%d+) %d+ 1 (%d+) 1 (%d+) [01] %d+ (%d+) [01] (%S+) '
