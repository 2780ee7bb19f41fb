// What calls have come to: statuses, their codes, and what was thrown.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_OUTCOME_H_
#define REDLATCH_TESTS_CONFORMANCE_API_OUTCOME_H_

#include "tests/support/live_testing.h"
#include "tests/support/testing.h"

namespace redlatch::conformance {

// EXPECT_OK(status), and the same for StatusOr.
inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}
#define EXPECT_OK(expression) \
  EXPECT_EQ(::redlatch::conformance::StatusOf(expression), absl::OkStatus())
#define ASSERT_OK(expression) \
  ASSERT_EQ(::redlatch::conformance::StatusOf(expression), absl::OkStatus())

// The code of what came out: EXPECT_EQ(CodeOf(lock.TryAcquire()), kBusy).
template <class Result>
absl::StatusCode CodeOf(const Result& result) {
  return StatusOf(result).code();
}
inline constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
inline constexpr absl::StatusCode kBusy = absl::StatusCode::kDeadlineExceeded;
inline constexpr absl::StatusCode kUnreachable = absl::StatusCode::kUnavailable;
inline constexpr absl::StatusCode kCancelled = absl::StatusCode::kCancelled;
inline constexpr absl::StatusCode kLost = absl::StatusCode::kAborted;
inline constexpr absl::StatusCode kMisuse = absl::StatusCode::kFailedPrecondition;
inline constexpr absl::StatusCode kBadInput = absl::StatusCode::kInvalidArgument;

// The code of what a call of the std face throws; kOk where it returns.
template <class Call>
absl::StatusCode Thrown(const Call& call) {
  try {
    call();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().category(), error_category()) << error.what();
    return static_cast<absl::StatusCode>(error.code().value());
  }
  return kOk;
}

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_OUTCOME_H_
