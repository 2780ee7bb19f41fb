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
#include "src/lock/kinds.h"

namespace redlatch::internal {

inline constexpr std::string_view kFenceSuffix = "fence";
// The suffixes of a lock type. Two types share only `fence`. Redisson's keys have a prefix instead,
// such as "redisson_lock_queue:", or a suffix that begins with ':'.
struct KeyNames {
  KeyNames() = default;
  // For "simple", the queue's suffix is `simple.queue`. Extra keys are whole suffixes:
  // "latch.counted".
  explicit KeyNames(std::string_view kind, std::vector<std::string> extra_keys = {});

  std::string queue;
  std::string waiters;
  std::string fence{kFenceSuffix};
  std::string gone;  // a tombstone; <client>.<number> follows
  std::vector<std::string> extras;

  bool redisson() const { return queue == kinds::kRedissonQueue; }
  bool operator==(const KeyNames&) const = default;
};
// A key of the server: its primary epoch, for the quarantine after a promotion. For `slot_tag`, see
// ServerGroup.
std::string PrimaryEpochKey(std::string_view slot_tag);
// A key of a quorum's server: the run of it that was last seen, for the delay after a restart.
std::string QuorumKey(std::string_view slot_tag);

// Returns the suffixes of a user's lock type; all begin with `x.`. Returns kInvalidArgument if the
// kind or an extra suffix cannot be part of a key.
absl::StatusOr<KeyNames> UsersKeyNames(std::string_view kind,
                                       const std::vector<std::string>& extras);

// Returns kInvalidArgument if a lock cannot have this main key, which is its key_prefix and name.
absl::Status CheckMainKey(std::string_view main);
// Returns kInvalidArgument if no name can follow this key_prefix.
absl::Status CheckKeyPrefix(std::string_view prefix);

// All keys of a lock, stored compactly, since a client may have very many locks.
class KeySet {
 public:
  KeySet() = default;  // of no lock
  // REQUIRES: CheckMainKey() accepts `main`, whose first bytes are the prefix.
  explicit KeySet(std::string_view main, size_t prefix_size = 0);
  static absl::StatusOr<KeySet> Make(std::string_view prefix, std::string_view name);

  std::string_view main() const { return std::string_view(text_).substr(0, main_size_); }
  std::string_view name() const { return main().substr(prefix_size_); }
  bool operator==(const KeySet&) const = default;
  // The key with that suffix, or prefix, in pieces.
  std::array<std::string_view, 3> Parts(std::string_view suffix) const;

 private:
  // The main key as it occurs in Redisson's keys.
  std::string_view tagged() const;

  std::string text_;  // the main key, and the beginning of the other keys
  uint32_t main_size_ = 0;
  uint32_t prefix_size_ = 0;
};

// Another key of the lock with that main key, in the same slot of a cluster.
std::string AuxiliaryKey(std::string_view main, std::string_view suffix);

// The inverse of AuxiliaryKey(). Nothing if the key is not an auxiliary key.
struct KeyParts {
  std::string_view main;  // within the key
  std::string_view suffix;
};
std::optional<KeyParts> ReadAuxiliaryKey(std::string_view key);

// The beginnings of all auxiliary keys of locks whose main keys begin with `prefix`.
std::array<std::string, 2> KeyBeginnings(std::string_view prefix);
// The ACL rules that grant all keys of the lock with that main key. `redisson`: Redisson's, too.
std::string KeyRules(std::string_view main, bool redisson = false);
// The rule that grants PrimaryEpochKey() and QuorumKey() with any tag.
std::string PrimaryEpochRule(std::string_view slot_tag);

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_KEY_SET_H_
