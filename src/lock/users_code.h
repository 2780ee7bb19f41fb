#ifndef REDLATCH_SRC_LOCK_USERS_CODE_H_
#define REDLATCH_SRC_LOCK_USERS_CODE_H_

#include <string_view>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"

namespace redlatch::internal {

// Calls a user's function. `name` is its name for messages. An exception is reported on stderr and
// goes no further.
void RunUsersCode(std::string_view name, absl::FunctionRef<void()> code) noexcept;

// Calls a user's callback on a thread of its own. This is for calls that have no client, which
// would say where callbacks run.
void RunCallbackApart(absl::AnyInvocable<void() &&> callback);

// Returns the user's callback, or one that does nothing if it is null.
template <class Callback>
Callback NotNull(Callback callback) {
  return callback ? std::move(callback) : Callback([](const auto&) {});
}

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_USERS_CODE_H_
