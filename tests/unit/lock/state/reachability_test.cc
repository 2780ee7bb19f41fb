#include "src/base/clock.h"
#include "src/lock/state/lock_state.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

base::Instant At(int64_t nanos) { return base::Instant::FromNanos(nanos); }

TEST(Reachability, IsSilentSinceFirstUnansweredRequest) {
  Reachability server;
  EXPECT_FALSE(server.silent());
  server.Unanswered(At(10), absl::UnavailableError("first"));
  server.Unanswered(At(20), absl::UnavailableError("second"));
  EXPECT_EQ(server.since(), At(10));
  EXPECT_EQ(server.why().message(), "second");
  server.Answered(At(30));
  EXPECT_FALSE(server.silent());
}

TEST(Reachability, ForgetsWaitersSilenceOnceServerAnswers) {
  Reachability server;
  EXPECT_EQ(server.Since(At(10)), At(10));
  server.Answered(At(20));
  EXPECT_EQ(server.Since(At(10)), base::Instant::Infinite());
  EXPECT_EQ(server.Since(At(25)), At(25));
}

}  // namespace
}  // namespace redlatch::internal
