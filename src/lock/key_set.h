// The keys of a lock. docs/protocol.md lists them.
#ifndef REDLATCH_SRC_LOCK_KEY_SET_H_
#define REDLATCH_SRC_LOCK_KEY_SET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace redlatch::internal {

// The suffixes of a class of locks. No two classes share one but `fence`.
struct KeyNames {
  KeyNames() = default;
  // "simple": its queue is `simple.queue`. Of further keys the whole suffixes: "latch.counted".
  explicit KeyNames(std::string_view kind, std::vector<std::string> extra_keys = {});

  std::string queue;
  std::string waiters;
  std::string gone;  // a hold that was given up; <client>.<number> follows
  std::vector<std::string> extras;

  bool operator==(const KeyNames&) const = default;
};
inline constexpr std::string_view kFenceSuffix = "fence";
// Not of one lock: who reigns at the server that has it, for the quarantine after a promotion.
// `slot_tag`: of ServerGroup.
std::string PrimaryEpochKey(std::string_view slot_tag);
// The same: which run of the server of a quorum has been seen, for the delay after a restart.
std::string QuorumKey(std::string_view slot_tag);

// Those of a user's class, which all begin with `x.`; kInvalidArgument if its kind or the suffix of
// an extra key cannot be part of a key.
absl::StatusOr<KeyNames> UsersKeyNames(std::string_view kind,
                                       const std::vector<std::string>& extras);

// kInvalidArgument if a lock cannot have this main key, its key_prefix and name.
absl::Status CheckMainKey(std::string_view main);
// kInvalidArgument if no name can stand behind this key_prefix.
absl::Status CheckKeyPrefix(std::string_view prefix);

// All keys of a lock, in little room: a client may have very many.
class KeySet {
 public:
  // Of a main key that CheckMainKey() takes, the first bytes of which are the prefix.
  explicit KeySet(std::string_view main, size_t prefix_size = 0);
  static absl::StatusOr<KeySet> Make(std::string_view prefix, std::string_view name);

  std::string_view main() const { return std::string_view(text_).substr(0, main_size_); }
  std::string_view name() const { return main().substr(prefix_size_); }
  bool operator==(const KeySet&) const = default;
  // The key with that suffix goes behind what is in `text`.
  template <class Text>
  void AppendTo(Text& text, std::string_view suffix) const {
    for (const std::string_view part : Parts(suffix)) text.append(part);
  }

 private:
  std::array<std::string_view, 3> Parts(std::string_view suffix) const;

  std::string text_;  // the main key, and what other keys begin with
  uint32_t main_size_ = 0;
  uint32_t prefix_size_ = 0;
};

// One other key of the lock with that main key, in the same cluster slot.
std::string AuxiliaryKey(std::string_view main, std::string_view suffix);

// What AuxiliaryKey() makes a key of; nothing if it does not make this one.
struct KeyParts {
  std::string_view main;  // within the key
  std::string_view suffix;
};
std::optional<KeyParts> ReadAuxiliaryKey(std::string_view key);

// What all keys but the main key begin with, of the locks whose main keys begin with `prefix`.
std::array<std::string, 2> KeyBeginnings(std::string_view prefix);
// The ACL rules that grant all keys of the lock with that main key.
std::string KeyRules(std::string_view main);
// The one that grants PrimaryEpochKey(), whatever its tag, and what stands beside it.
std::string PrimaryEpochRule(std::string_view slot_tag);

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_KEY_SET_H_
