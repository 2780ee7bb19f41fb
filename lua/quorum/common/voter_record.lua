-- The record (see common/parse_waiter) of a waiter that a fast path votes for by message: it wants
-- one token. Captures asked_us, attempt, heartbeat_ms, claim_ms, channel and its secret.
local voter_record = '^(%d+) %d+ 1 (%d+) 1 (%d+) [01] %d+ (%d+) [01] (%S+) 32 %x+ (%x+)$'
