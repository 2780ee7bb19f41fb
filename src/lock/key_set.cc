#include "src/lock/key_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/base/utf8.h"
#include "src/lock/kinds.h"

namespace redlatch::internal {
namespace {

constexpr size_t kLongestMainKey = 4096;
constexpr size_t kLongestSuffix = 64;
constexpr std::string_view kOwn = "redlatch:";
constexpr std::string_view kVersioned = "redlatch:2";     // the version of the protocol
constexpr std::string_view kUnversioned = "redlatch:rw";  // readers
constexpr std::string_view kReadersPart = "readers";

absl::Status CheckUsersPart(std::string_view what, std::string_view text) {
  const auto allowed = [](char c) {
    return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  if (text.empty() || text.size() > kLongestSuffix || !std::ranges::all_of(text, allowed)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", std::string(what), " ", base::Quoted(text), " cannot be part of a key; use 1 to ",
        kLongestSuffix, " of a-z, 0-9, '_', '.' and '-'"));
  }
  return absl::OkStatus();
}

// Returns true if a cluster hashes only a part of the key: the text between its first { and the
// next }, if it is not empty.
bool HasTag(std::string_view key) {
  const size_t open = key.find('{');
  if (open == std::string_view::npos) return false;
  const size_t close = key.find('}', open);
  return close != std::string_view::npos && close > open + 1;
}

// The text between the version and the main key. It begins a hash tag unless the main key has one.
std::string_view Opening(std::string_view main) { return HasTag(main) ? ".tag:" : ":{"; }

}  // namespace

KeyNames::KeyNames(std::string_view kind, std::vector<std::string> extra_keys)
    : queue(std::string(kind) + ".queue"),
      waiters(std::string(kind) + ".waiters"),
      gone(std::string(kind) + ".gone."),
      extras(std::move(extra_keys)) {
  if (kind != kinds::kRedissonKeys.in_keys) return;
  queue = kinds::kRedissonQueue;
  waiters = kinds::kRedissonTimeouts;
  fence = kinds::kRedissonToken;
  gone = kinds::kRedissonLatchKey;
}

absl::StatusOr<KeyNames> UsersKeyNames(std::string_view kind,
                                       const std::vector<std::string>& extras) {
  if (absl::Status bad = CheckUsersPart("kind", kind); !bad.ok()) return bad;
  std::vector<std::string> suffixes;
  for (const std::string_view extra : extras) {
    if (absl::Status bad = CheckUsersPart("key suffix", extra); !bad.ok()) return bad;
    if (extra.ends_with(".queue") || extra.ends_with(".waiters") ||
        extra.find(".gone.") != std::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the key suffix ", base::Quoted(extra),
          " could be that of a queue of redlatch's own; choose one that does not end in .queue or "
          ".waiters and has no .gone. in it"));
    }
    suffixes.push_back(std::string(kinds::kUsers).append(extra));
  }
  return KeyNames(std::string(kinds::kUsers).append(kind), std::move(suffixes));
}

absl::Status CheckMainKey(std::string_view main) {
  std::string_view why;
  if (main.empty()) return absl::InvalidArgumentError("the name of a lock must not be empty");
  if (main.size() > kLongestMainKey) {
    return absl::InvalidArgumentError(absl::StrCat("a lock's name of ", main.size(),
                                                   " bytes, with its key_prefix, is too long; ",
                                                   kLongestMainKey, " are the most"));
  }
  if (main.starts_with(kOwn)) {
    why = " begins with \"redlatch:\", as redlatch's own keys do; choose another";
  } else if (!HasTag(main) && main.find('}') != std::string_view::npos) {
    why =
        " has braces that are no hash tag, so that its keys could not share a cluster slot; leave "
        "them out, or put something between them";
  }
  if (why.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the lock's name ", base::Quoted(main), std::string(why)));
}

absl::Status CheckKeyPrefix(std::string_view prefix) {
  if (prefix.empty()) return absl::OkStatus();
  // Stand for a name without braces, one with a tag, and one that ends a tag. If all of them are
  // refused, every name is.
  absl::Status first;
  for (const std::string_view name : {"x", "{x}", "x}"}) {
    absl::Status refused = CheckMainKey(std::string(prefix).append(name));
    if (refused.ok()) return refused;
    if (first.ok()) first = std::move(refused);
  }
  return absl::InvalidArgumentError(absl::StrCat("no lock can have a name behind the key_prefix ",
                                                 base::Quoted(prefix), ": ", first.message()));
}

std::string AuxiliaryKey(std::string_view main, std::string_view suffix) {
  std::string key;
  const KeySet keys(main);
  for (const std::string_view part : keys.Parts(suffix)) key.append(part);
  return key;
}

std::optional<KeyParts> ReadAuxiliaryKey(std::string_view key) {
  // redlatch:<version>:{<main>}:<suffix>, or redlatch:<version>.tag:<main>:<suffix>
  const size_t field = key.starts_with(kOwn) ? key.find(':', kOwn.size()) : std::string_view::npos;
  const size_t last = key.rfind(':');
  if (field == std::string_view::npos || field == last) return std::nullopt;
  KeyParts parts = {key.substr(field + 1, last - field - 1), key.substr(last + 1)};
  if (!key.substr(0, field).ends_with(".tag")) {
    if (parts.main.size() < 2) return std::nullopt;
    parts.main = parts.main.substr(1, parts.main.size() - 2);
  }
  if (parts.suffix == kReadersPart) parts.suffix = kinds::kReadersSuffix;
  const bool made_so =
      CheckMainKey(parts.main).ok() && AuxiliaryKey(parts.main, parts.suffix) == key;
  return made_so ? std::optional(parts) : std::nullopt;
}

std::array<std::string, 2> KeyBeginnings(std::string_view prefix) {
  const std::string stem = std::string(Opening(prefix)).append(prefix);
  return {std::string(kVersioned).append(stem), std::string(kUnversioned).append(stem)};
}

std::string PrimaryEpochKey(std::string_view slot_tag) {
  return std::string(kOwn).append(slot_tag).append("reign");
}

std::string QuorumKey(std::string_view slot_tag) {
  return std::string(kOwn).append(slot_tag).append("quorum");
}

std::string KeyRules(std::string_view main, bool redisson) {
  std::string pattern;
  for (const char c : main) {
    // Rules cannot contain spaces, and other such characters cannot be typed.
    const bool types = absl::ascii_isgraph(static_cast<unsigned char>(c));
    if (types && std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += types ? c : '?';
  }
  const std::string rest =
      std::string(Opening(main)).append(pattern).append(HasTag(main) ? ":*" : "}:*");
  std::string rules = absl::StrCat("~", pattern, " ~", std::string(kVersioned), rest, " ~",
                                   std::string(kUnversioned), rest);
  if (!redisson) return rules;
  if (main.find('{') == std::string_view::npos) pattern = "{" + pattern + "}";
  return absl::StrCat(rules, " ~redisson_*:", pattern, "* ~", pattern, ":*");
}

std::string PrimaryEpochRule(std::string_view slot_tag) {
  return "~" + (slot_tag.empty() ? PrimaryEpochKey({}) : PrimaryEpochKey("*") + "*");
}

absl::StatusOr<KeySet> KeySet::Make(std::string_view prefix, std::string_view name) {
  const std::string main = std::string(prefix).append(name);
  if (absl::Status bad = CheckMainKey(name.empty() ? name : main); !bad.ok()) return bad;
  return KeySet(main, prefix.size());
}

KeySet::KeySet(std::string_view main, size_t prefix_size)
    : main_size_(static_cast<uint32_t>(main.size())),
      prefix_size_(static_cast<uint32_t>(prefix_size)) {
  const std::string_view opening = Opening(main);
  text_.reserve(2 * main.size() + kVersioned.size() + 6);
  text_.append(main).append(kVersioned).append(opening);
  text_.append(main).append(opening.ends_with('{') ? "}:" : ":");
}

std::array<std::string_view, 3> KeySet::Parts(std::string_view suffix) const {
  const std::string_view stem = std::string_view(text_).substr(main_size_);
  if (suffix == kinds::kReadersSuffix)
    return {kUnversioned, stem.substr(kVersioned.size()), kReadersPart};
  if (suffix.starts_with(kinds::kRedisson)) return {suffix, tagged(), ""};
  if (suffix.starts_with(':')) return {tagged(), suffix, ""};
  return {stem, suffix, ""};
}

std::string_view KeySet::tagged() const {
  if (main().find('{') != std::string_view::npos) return main();
  return std::string_view(text_).substr(main_size_ + kVersioned.size() + 1, main_size_ + 2);
}

}  // namespace redlatch::internal
