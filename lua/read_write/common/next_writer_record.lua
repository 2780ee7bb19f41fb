-- The record (see common/parse_waiter) of a waiting writer that a fast path makes the owner: it
-- wants one token, is not phase-fair, and belongs to its client. Captures asked_us, attempt,
-- heartbeat_ms, claim_ms, channel and owner.
local next_writer_record = '^(%d+) %d+ 1 (%d+) 1 (%d+) [01] %d+ (%d+) [01] (%S+) 32 (%x+)$'
