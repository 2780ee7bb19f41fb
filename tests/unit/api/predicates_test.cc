// The names of status.h in a program that spells out neither namespace.

#include "redlatch/status.h"
#include "tests/support/testing.h"

namespace {

using namespace redlatch;  // NOLINT(google-build-using-namespace)

TEST(PredicatesTest, AreNotAmbiguousWithAbsl) {
  EXPECT_TRUE(IsCancelled(absl::CancelledError("stopped")));
  EXPECT_TRUE(IsUnavailable(absl::UnavailableError("silent")));
  EXPECT_TRUE(IsBusy(absl::DeadlineExceededError("busy")));
  EXPECT_TRUE(IsLeaseLost(absl::AbortedError("lost")));
  EXPECT_TRUE(IsMisuse(absl::FailedPreconditionError("misuse")));
  EXPECT_TRUE(IsMisuse(absl::InvalidArgumentError("bad")));
}

}  // namespace
