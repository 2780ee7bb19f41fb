-- read_ending(): parses a release's arguments after the grant: the last token used, the last
-- reserved, how long the tombstone lives, and until when the lock stays taken (in us, and for how
-- many ms from now at most).
local function read_ending()
  local used, reserved, gone_ms, taken_us, taken_ms =
    string.match(ARGV[2] or '0 0 0', '^(%d+) (%d+) (%d+) ?(%d*) ?(%d*)$')
  return {used = tonumber(used), reserved = tonumber(reserved), gone_ms = gone_ms,
    taken_us = tonumber(taken_us), taken_ms = tonumber(taken_ms)}
end
