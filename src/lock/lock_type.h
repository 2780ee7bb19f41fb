#ifndef REDLATCH_SRC_LOCK_LOCK_TYPE_H_
#define REDLATCH_SRC_LOCK_LOCK_TYPE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "redlatch/lua_script.h"
#include "src/lock/key_set.h"
#include "src/lock/kinds.h"
#include "src/lock/state/lock_state.h"

namespace redlatch::internal {

// What defines a lock type, as its class's virtual functions told at first use.
struct LockType {
  LockScripts scripts;   // assembled, each with its SHA-1
  LockScripts original;  // as the class returned them
  LockTraits traits;
  GrantUse use = GrantUse::kExclusive;
  bool holds() const { return use != GrantUse::kLatch; }
  // Shared with Redisson, whose messages let waiters ask again.
  bool redisson() const { return keys.redisson(); }
  // A lock may be acquired by SET if its key is a string and no quarantine must be checked.
  bool may_be_native() const {
    return traits.kind == kinds::kSimple && others.empty() && !quarantined;
  }
  std::string_view noun = "lock";  // for messages
  std::string_view busy = "someone else holds it";
  KeyNames keys;
  std::string_view forced_key;  // the suffix of a key that only force_release gets, or empty
  std::vector<std::string> extra_args;
  // If the lock has several names: the keys of all but the first, which is the entry's own.
  std::vector<KeySet> others;
  std::string title;               // its name for messages; if empty, the lock's name
  bool quarantined = false;        // its scripts check for a quarantine; see Quarantined()
  std::vector<std::string> texts;  // owns the text of a user's scripts and their SHA-1s

  // Returns true if `other`, which may be incomplete, is the same type. REQUIRES: this is complete.
  bool SameAs(const LockType& other) const;
  // Returns true if locks of the two types with one main key are independent within this client.
  // They exclude each other at the server, as locks of two clients do.
  bool ApartFrom(const LockType& other) const {
    return keys == other.keys && others != other.others;
  }
  // Distinguishes entries with the same main key, as an owner does; empty if `others` is empty.
  std::string OthersId() const;
};

// Returns a user's script with each line `-- include: <piece>` replaced by that piece
// (lua/README.md) the first time it occurs, as the build does with redlatch's own scripts. Returns
// kInvalidArgument if a piece does not exist.
absl::StatusOr<std::string> Assemble(std::string_view script);

// Returns the type with scripts that grant nothing during a quarantine. They get the words of the
// primary epoch for that (lua/common/quarantine.lua). REQUIRES: `type` is complete.
LockType Quarantined(LockType type);

// Assembles a user's scripts and fills in missing SHA-1s.
absl::StatusOr<LockType> Complete(LockType type);

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOCK_TYPE_H_
