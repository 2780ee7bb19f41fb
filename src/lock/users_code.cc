#include "src/lock/users_code.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/error_address.h"
#include "src/base/no_cancellation.h"
#include "src/base/stderr_line.h"
#include "src/base/thread.h"

namespace redlatch::internal {
namespace {

void Tell(std::string_view name, std::string_view what) {
  std::string line = absl::StrCat(std::string(name),
                                  " threw an exception, which was ignored: ", std::string(what));
  base::AddAddress(line);
  base::PrintLine(line);
}

}  // namespace

void RunUsersCode(std::string_view name, absl::FunctionRef<void()> code) noexcept {
  const base::NoCancellation no_cancellation;
  try {
    code();
  } catch (const std::exception& thrown) {
    Tell(name, thrown.what());
  } catch (...) {
    Tell(name, "it is no std::exception");
  }
}

void RunCallbackApart(absl::AnyInvocable<void() &&> callback) {
  const auto shared = std::make_shared<decltype(callback)>(std::move(callback));
  base::RunApart("redlatch-async",
                 [shared] { RunUsersCode("a callback", [&] { std::move (*shared)(); }); });
}

}  // namespace redlatch::internal
