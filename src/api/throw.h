#ifndef REDLATCH_SRC_API_THROW_H_
#define REDLATCH_SRC_API_THROW_H_

#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "redlatch/status.h"

namespace redlatch {

// How the std faces tell of a failure.
[[noreturn]] inline void Throw(const absl::Status& status) {
  throw std::system_error(MakeErrorCode(status.code()), std::string(status.message()));
}

// Of a thread that would wait for itself.
[[noreturn]] inline void ThrowDeadlock(const absl::Status& status) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                          std::string(status.message()));
}

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_THROW_H_
