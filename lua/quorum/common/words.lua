-- The last words of ARGV are the quorum's own, and differ from node to node: take_words(count)
-- takes them away and answers them, the first one first.
local function take_words(count)
  local words = {}
  for i = count, 1, -1 do
    words[i] = table.remove(ARGV)
  end
  return unpack(words)
end
