#ifndef REDLATCH_SRC_LOCK_LOCK_TYPE_H_
#define REDLATCH_SRC_LOCK_LOCK_TYPE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "redlatch/lua_script.h"
#include "src/lock/key_set.h"
#include "src/lock/state/lock_state.h"

namespace redlatch::internal {

// What a class of locks is made of, as its virtuals told at first use.
struct LockType {
  LockScripts scripts;  // assembled, each with its SHA-1
  LockScripts told;     // as the class told them
  LockTraits traits;
  GrantUse use = GrantUse::kExclusive;
  bool holds() const { return use != GrantUse::kLatch; }
  std::string_view noun = "lock";  // for messages
  std::string_view busy = "someone else holds it";
  KeyNames keys;
  std::string_view forced_key;  // the suffix of one that only force_release is given, or empty
  std::vector<std::string> extra_args;
  // Of a lock of several names: the keys of those behind the first, which is the entry's own.
  std::vector<KeySet> others;
  std::string title;         // and what it is called; else by its name
  bool quarantined = false;  // its scripts look whether there is a quarantine; see Quarantined()
  std::vector<std::string> texts;  // what a user's own scripts and their SHA-1s refer to

  // Of a plan that is complete: whether the class of `other`, which need not be, is the same.
  bool SameAs(const LockType& other) const;
  // Whether locks of the two, though of one main key, know nothing of each other in this client: at
  // the server they exclude each other, as those of two clients do.
  bool ApartFrom(const LockType& other) const {
    return keys == other.keys && others != other.others;
  }
  // What tells entries of one main key apart, as an owner does; empty without `others`.
  std::string OthersId() const;
};

// A user's script with each line `-- include: <piece>` replaced by that piece of redlatch's own
// (lua/README.md), the first time it is asked for, as the build does with redlatch's scripts.
// kInvalidArgument for a piece that there is not.
absl::StatusOr<std::string> Assemble(std::string_view script);

// A complete plan whose scripts grant nothing while there is a quarantine, and take the words of a
// primary epoch for that (lua/common/quarantine.lua).
LockType Quarantined(LockType type);

// Assembles a user's own scripts, and fills in the SHA-1s that are missing.
absl::StatusOr<LockType> Complete(LockType type);

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOCK_TYPE_H_
