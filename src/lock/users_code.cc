#include "src/lock/users_code.h"

#include <exception>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/base/no_cancellation.h"
#include "src/base/stderr_line.h"

namespace redlatch::internal {
namespace {

void Tell(std::string_view name, std::string_view what) {
  base::PrintLine(absl::StrCat(std::string(name),
                               " threw an exception, which was ignored: ", std::string(what)));
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

}  // namespace redlatch::internal
