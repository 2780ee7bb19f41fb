#include "src/cli/term/cluster_nodes.h"

#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace redlatch::cli {
namespace {

// "[93->-id]", which leaves, or "[93-<-id]", which comes.
void ReadOpen(absl::string_view word, std::vector<OpenSlot>& open) {
  if (word.size() < 2 || word.front() != '[' || word.back() != ']') return;
  word = word.substr(1, word.size() - 2);
  const size_t dash = word.find('-');
  OpenSlot slot;
  if (dash == word.npos || dash + 3 > word.size()) return;
  if (!absl::SimpleAtoi(word.substr(0, dash), &slot.slot)) return;
  slot.leaving = word[dash + 1] == '>';
  slot.other = std::string(word.substr(dash + 3));
  open.push_back(std::move(slot));
}

}  // namespace

// id address@port[,host] flags primary ping pong epoch link slots...
std::vector<ClusterLine> ReadClusterNodes(const std::string& text) {
  std::vector<ClusterLine> lines;
  for (const absl::string_view row : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> words = absl::StrSplit(row, ' ', absl::SkipEmpty());
    if (words.size() < 8) continue;
    ClusterLine line = {.id = std::string(words[0]),
                        .address = std::string(words[1].substr(0, words[1].find('@'))),
                        .flags = absl::StrSplit(words[2], ','),
                        .open = {}};
    for (size_t i = 8; i < words.size(); ++i) {
      if (words[i].front() == '[') {
        ReadOpen(words[i], line.open);
      } else {
        line.serves = true;
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace redlatch::cli
