#ifndef REDLATCH_SRC_ENGINE_PLAN_H_
#define REDLATCH_SRC_ENGINE_PLAN_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/lua_script.h"
#include "src/engine/sharing.h"

namespace redlatch::engine {

// What a class of locks is made of, as its virtuals told at first use.
struct Plan {
  LockScripts scripts;  // each with its SHA-1
  LockTraits traits;
  Sharing sharing = Sharing::kExclusive;
  std::string_view noun = "lock";  // for messages
  std::string_view busy = "somebody else has it";
  std::vector<std::string> extra_keys;  // suffixes
  std::vector<std::string> extra_args;
  std::vector<std::string> digests;  // what the SHA-1s of a user's own scripts refer to

  bool SameAs(const Plan& other) const;
};

// Fills in the SHA-1s that are missing.
Plan Complete(Plan plan);

// The keys of one lock: all in the cluster slot of the first.
class KeySet {
 public:
  // kInvalidArgument where no keys of one slot can be made of the name.
  static absl::StatusOr<KeySet> Make(std::string_view prefix, std::string_view name);

  std::string_view main() const { return std::string_view(text_).substr(0, main_size_); }
  std::string_view name() const { return main().substr(prefix_size_); }
  // "{name}", or "name" where that has a hash tag: what the auxiliary keys begin with.
  std::string_view stem() const;
  // `{name}:suffix`
  std::string Auxiliary(std::string_view suffix) const;

  std::string_view queue() const { return Part(0); }
  std::string_view waiters() const { return Part(1); }
  std::string_view fence() const { return Part(2); }

 private:
  KeySet() = default;
  std::string_view Part(size_t index) const;

  std::string text_;  // the main key, and the auxiliary ones, one after the other
  size_t prefix_size_ = 0;
  size_t main_size_ = 0;
  bool tagged_ = false;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_PLAN_H_
