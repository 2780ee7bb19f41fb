-- read_ending(): what release is asked for beside the release: the last token used and the last
-- reserved, and how long to remember that the grant was given up.
local function read_ending()
  local used, reserved, gone_ms = string.match(ARGV[2] or '0 0 0', '^(%d+) (%d+) (%d+)$')
  return {used = tonumber(used), reserved = tonumber(reserved), gone_ms = gone_ms}
end
