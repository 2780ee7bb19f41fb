#include "src/cli/look/lock_keys.h"

#include <algorithm>
#include <optional>

#include "src/lock/description.h"

namespace redlatch::cli {
namespace {

namespace kinds = internal::kinds;

constexpr std::string_view kVersion = "/2";  // of the protocol, in `kind`
constexpr std::string_view kQueueEnd = ".queue";

std::string InKeys(std::string_view kind) {
  return kinds::IsOurs(kind) ? std::string(kinds::InKeys(kind))
                             : std::string(kinds::kUsers).append(kind);
}

Part PartOf(std::string_view suffix) {
  for (const PartSuffix& each : kPartSuffixes) {
    if (suffix == each.suffix) return each.part;
  }
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
  if (internal::CheckMainKey(key).ok()) return {.name = key, .part = kMain};
  const std::optional<internal::KeyParts> other = internal::ReadAuxiliaryKey(key);
  if (!other) return {};
  return {.name = other->main, .part = PartOf(other->suffix), .suffix = other->suffix};
}

std::string QueueSuffix(std::string_view kind) { return InKeys(kind).append(kQueueEnd); }

std::string WaitersSuffix(std::string_view kind) { return InKeys(kind) + ".waiters"; }

std::string KindOfQueue(std::string_view suffix) {
  std::string_view kind = suffix.substr(0, suffix.size() - kQueueEnd.size());
  if (kind == kinds::InKeys(kinds::kReadWrite)) return std::string(kinds::kReadWrite);
  if (kind.starts_with(kinds::kUsers)) kind.remove_prefix(kinds::kUsers.size());
  return std::string(kind);
}

std::string_view KindIn(std::string_view text) {
  const bool ours = text.ends_with(kVersion) && IsKindOfOurs(text);
  return ours ? text.substr(0, text.size() - kVersion.size()) : text;
}

bool IsKindOfOurs(std::string_view text) {
  const std::string_view kind = text.substr(0, text.find('/'));
  return kind != kinds::kSimple && kinds::IsOurs(kind);
}

std::string_view QuorumHoldIn(std::string_view value) {
  const size_t space = value.find(' ');
  if (space == value.npos) return {};
  const std::string_view attempt = value.substr(space + 1);
  const bool is_number = !attempt.empty() && attempt.find_first_not_of("0123456789") == value.npos;
  const std::string_view hold = value.substr(0, space);
  return is_number && !internal::ClientOf(hold).empty() ? hold : std::string_view();
}

redis::Command DeleteLocks(const std::vector<std::string>& names) {
  std::vector<std::string> keys;
  for (const std::string& name : names) {
    keys.push_back(name);
    const auto add = [&](std::string_view suffix) {
      keys.push_back(internal::AuxiliaryKey(name, suffix));
    };
    for (const PartSuffix& each : kPartSuffixes) add(each.suffix);
    for (const std::string_view suffix :
         {kinds::kForcedSuffix, kinds::kCountedSuffix, kinds::kHoldsSuffix,
          kinds::kWriteHoldsSuffix, kinds::kTurnSuffix}) {
      add(suffix);
    }
    for (const std::string_view kind : kinds::kAll) {
      add(QueueSuffix(kind));
      add(WaitersSuffix(kind));
    }
  }
  std::vector<std::string_view> words = {"DEL"};
  words.insert(words.end(), keys.begin(), keys.end());
  return redis::Command(words);
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
