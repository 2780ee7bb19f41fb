-- Run on the assembled scripts (./dev lint): Lua 5.1 as Redis offers it.
std = {
  read_globals = {
    redis = { other_fields = true },
    'KEYS', 'ARGV', 'cjson', 'cmsgpack', 'bit', 'struct',
    'assert', 'error', 'ipairs', 'math', 'next', 'pairs', 'pcall', 'select', 'string', 'table',
    'tonumber', 'tostring', 'type', 'unpack', 'xpcall',
  },
}
max_line_length = 100
