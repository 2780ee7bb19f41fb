#include "redlatch/status.h"

#include <string>

namespace redlatch {
namespace {

class ErrorCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "redlatch"; }
  std::string message(int value) const override {
    return absl::StatusCodeToString(static_cast<absl::StatusCode>(value));
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const ErrorCategory* const category = new ErrorCategory;
  return *category;
}

std::error_code MakeErrorCode(absl::StatusCode code) {
  return {static_cast<int>(code), error_category()};
}

}  // namespace redlatch
