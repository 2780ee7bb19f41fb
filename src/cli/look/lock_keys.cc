#include "src/cli/look/lock_keys.h"

#include <algorithm>
#include <iterator>

#include "src/engine/protocol/key_set.h"

namespace redlatch::cli {
namespace {

constexpr std::string_view kOwn = "redlatch:";
constexpr std::string_view kVersion = "/2";  // of the protocol, in `kind`
constexpr std::string_view kQueueEnd = ".queue";

// What a kind is called in keys, and the other way round.
std::string InKeys(std::string_view kind) {
  if (kind == "read_write") return "rw";
  return std::ranges::find(kKinds, kind) == std::end(kKinds) ? "x." + std::string(kind)
                                                             : std::string(kind);
}

Part PartOf(std::string_view suffix) {
  if (suffix == engine::kFenceSuffix) return kFence;
  if (suffix == engine::kReadersSuffix) return kReaders;
  if (suffix == kPermitsSuffix) return kPermits;
  if (suffix == kWritersSuffix) return kWriters;
  return suffix.ends_with(kQueueEnd) ? kQueue : kNoPart;
}

// Of the set that begins behind the '[' at `pattern[0]`; moves behind its ']'.
bool InSet(char c, std::string_view& pattern) {
  pattern.remove_prefix(1);
  const bool inverted = pattern.starts_with('^');
  if (inverted) pattern.remove_prefix(1);
  bool found = false;
  while (!pattern.empty() && pattern[0] != ']') {
    if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
    const auto low = static_cast<unsigned char>(pattern[0]);
    auto high = low;
    if (pattern.size() > 2 && pattern[1] == '-' && pattern[2] != ']') {
      high = static_cast<unsigned char>(pattern[2]);
      pattern.remove_prefix(2);
    }
    const auto byte = static_cast<unsigned char>(c);
    found = found || (std::min(low, high) <= byte && byte <= std::max(low, high));
    pattern.remove_prefix(1);
  }
  if (!pattern.empty()) pattern.remove_prefix(1);
  return found != inverted;
}

// Whether what stands first in `pattern`, which is no '*', takes `c`; moves behind it.
bool Takes(char c, std::string_view& pattern) {
  if (pattern[0] == '[') return InSet(c, pattern);
  if (pattern[0] == '\\' && pattern.size() > 1) {
    pattern.remove_prefix(1);
  } else if (pattern[0] == '?') {
    pattern.remove_prefix(1);
    return true;
  }
  const bool same = pattern[0] == c;
  pattern.remove_prefix(1);
  return same;
}

}  // namespace

LockKey ReadLockKey(std::string_view key) {
  if (!key.starts_with(kOwn)) {
    return engine::CheckMainKey(key).ok() ? LockKey{.name = key, .part = kMain} : LockKey();
  }
  // redlatch:<version>:{<name>}:<suffix>, or redlatch:<version>.tag:<name>:<suffix>
  const size_t field = key.find(':', kOwn.size());
  const size_t last = key.rfind(':');
  if (field == std::string_view::npos || field == last) return {};
  std::string_view name = key.substr(field + 1, last - field - 1);
  if (!key.substr(0, field).ends_with(".tag")) {
    if (name.size() < 2) return {};
    name = name.substr(1, name.size() - 2);
  }
  std::string_view suffix = key.substr(last + 1);
  if (suffix == "readers") suffix = engine::kReadersSuffix;
  // Exactly what the library makes of that name and suffix is one of its keys.
  if (!engine::CheckMainKey(name).ok() || engine::AuxiliaryKey(name, suffix) != key) return {};
  return {.name = name, .part = PartOf(suffix), .suffix = suffix};
}

std::string QueueSuffix(std::string_view kind) { return InKeys(kind).append(kQueueEnd); }

std::string WaitersSuffix(std::string_view kind) { return InKeys(kind) + ".waiters"; }

std::string KindOfQueue(std::string_view suffix) {
  const std::string_view kind = suffix.substr(0, suffix.size() - kQueueEnd.size());
  if (kind == "rw") return "read_write";
  return std::string(kind.starts_with("x.") ? kind.substr(2) : kind);
}

std::string_view KindIn(std::string_view text) {
  const bool ours = text.ends_with(kVersion) && IsKindOfOurs(text);
  return ours ? text.substr(0, text.size() - kVersion.size()) : text;
}

bool IsKindOfOurs(std::string_view text) {
  const std::string_view kind = text.substr(0, text.find('/'));
  return kind != "simple" && std::ranges::find(kKinds, kind) != std::end(kKinds);
}

bool MatchesGlob(std::string_view text, std::string_view pattern) {
  // Where the last '*' stood: it takes one byte more whenever what follows it did not fit.
  std::string_view behind_star;
  std::string_view retry;
  bool starred = false;
  while (!text.empty() || !pattern.empty()) {
    if (!pattern.empty() && pattern[0] == '*') {
      pattern.remove_prefix(1);
      starred = true;
      behind_star = pattern;
      retry = text;
      continue;
    }
    if (!text.empty() && !pattern.empty() && Takes(text[0], pattern)) {
      text.remove_prefix(1);
      continue;
    }
    if (!starred || retry.empty()) return false;
    retry.remove_prefix(1);
    text = retry;
    pattern = behind_star;
  }
  return true;
}

}  // namespace redlatch::cli
