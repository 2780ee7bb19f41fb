#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/engine/protocol/description.h"

namespace redlatch::engine {
namespace {

constexpr size_t kLongestPart = 255;

// On one line, with no control characters, and not cut within a character.
std::string Tidy(std::string_view text) {
  size_t size = std::min(text.size(), kLongestPart);
  while (size > 0 && size < text.size() &&
         (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) {
    --size;
  }
  std::string tidy(text.substr(0, size));
  const auto control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; };
  std::replace_if(tidy.begin(), tidy.end(), control, '?');
  return tidy;
}

}  // namespace

std::string WriteDescription(const LockInfo::Process& process, absl::Time since) {
  std::string host = Tidy(process.host);
  std::replace(host.begin(), host.end(), ' ', '_');
  return absl::StrCat(process.pid, " ", absl::ToUnixMicros(since), " ", host, " ",
                      Tidy(process.program));
}

std::optional<LockInfo::Process> ReadDescription(std::string_view text) {
  const std::vector<std::string> words =
      absl::StrSplit(absl::string_view(text.data(), text.size()), absl::MaxSplits(' ', 3));
  LockInfo::Process process;
  int64_t since = 0;
  if (words.size() < 4 || !absl::SimpleAtoi(words[0], &process.pid) || process.pid <= 0 ||
      !absl::SimpleAtoi(words[1], &since)) {
    return std::nullopt;
  }
  process.host = words[2];
  process.program = words[3];
  return process;
}

}  // namespace redlatch::engine
