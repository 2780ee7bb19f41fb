#include "src/cli/lock_keys.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/engine/description.h"

namespace redlatch::cli {
namespace {

constexpr std::string_view kGone = ":gone:";
constexpr std::pair<std::string_view, Part> kSuffixes[] = {
    {":queue", kQueue},     {":fence", kFence},          {":readers", kReaders},
    {":permits", kPermits}, {":write_wait", kWriteWait}, {":waiters", kNoPart},
    {":counted", kNoPart},
};

// As a cluster hashes: what stands between the first { and the next }, where that is something.
bool HasTag(std::string_view key) {
  const size_t open = key.find('{');
  if (open == std::string_view::npos) return false;
  const size_t close = key.find('}', open);
  return close != std::string_view::npos && close > open + 1;
}

std::string_view NameOfStem(std::string_view stem) {
  if (!stem.starts_with('{') || !stem.ends_with('}')) return stem;
  const std::string_view inner = stem.substr(1, stem.size() - 2);
  return inner.find_first_of("{}") == std::string_view::npos ? inner : stem;
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
  if (key.starts_with(engine::kDescriptionKeyPrefix)) return {};
  const size_t gone = key.rfind(kGone);
  if (gone != std::string_view::npos && HasTag(key.substr(0, gone)) &&
      !engine::ClientOf(key.substr(gone + kGone.size())).empty()) {
    return {};
  }
  for (const auto& [suffix, part] : kSuffixes) {
    if (!key.ends_with(suffix)) continue;
    const std::string_view stem = key.substr(0, key.size() - suffix.size());
    if (HasTag(stem)) return {.name = NameOfStem(stem), .part = part};
  }
  return {.name = key, .part = kMain};
}

std::string Auxiliary(std::string_view name, std::string_view suffix) {
  const bool tagged = HasTag(name);
  return absl::StrCat(tagged ? "" : "{", std::string(name),
                      tagged ? ":" : "}:", std::string(suffix));
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
