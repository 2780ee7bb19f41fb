-- read_ending(): what a release says besides its grant: the last token used, the last reserved, and
-- how long the tombstone lives.
local function read_ending()
  local used, reserved, gone_ms = string.match(ARGV[2] or '0 0 0', '^(%d+) (%d+) (%d+)$')
  return {used = tonumber(used), reserved = tonumber(reserved), gone_ms = gone_ms}
end
