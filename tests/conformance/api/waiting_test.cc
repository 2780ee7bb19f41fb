// Waiting: how long, in what order it ends, and what stops it.

#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

// Of whatever excludes others.
class Waiting : public Conformance {
 protected:
  // A lock that somebody else has, for as long as this test.
  void Occupy() {
    lease_.emplace(*NewAny(owner_)->Acquire());
    ASSERT_TRUE(lease_->valid());
  }
  // A call that may take so long takes it; the simulator sees that it does not take much more.
  template <class Call>
  static void ExpectTakes(absl::Duration wait, const Call& call) {
    const base::Instant deadline = base::Now() + wait;
    call();
    EXPECT_GE(base::Now(), deadline);
  }

  const Client owner_ = NewClient();
  const Client client_ = NewClient();
  const std::unique_ptr<support::AnyLock> lock_ = NewAny(client_);
  std::optional<support::AnyHold> lease_;
};

INSTANTIATE_CONFORMANCE(Waiting, WithoutSmoke(ExclusiveCases()));

TEST_P(Waiting, EndsWhenItsTimeIsUpAndNotBefore) {
  Occupy();
  Crew crew;
  for (const int wait_ms : {1, 20, 55, 90, 130}) {
    crew.Start([&, wait_ms] {
      ExpectTakes(absl::Milliseconds(wait_ms), [&] {
        EXPECT_EQ(CodeOf(lock_->Acquire({.wait = absl::Milliseconds(wait_ms)})), kBusy);
      });
      ExpectTakes(absl::Milliseconds(wait_ms),
                  [&] { EXPECT_FALSE(lock_->try_lock_for(std::chrono::milliseconds(wait_ms))); });
    });
  }
  crew.Join();
  EXPECT_TRUE(AwaitQueued(0));
  EXPECT_TRUE(lease_->valid());
}

TEST_P(Waiting, IsStoppedByItsStopToken) {
  Occupy();
  std::stop_source stop;
  base::Instant ended;
  Crew crew;
  crew.Start([&] {
    EXPECT_EQ(CodeOf(lock_->Acquire({.stop = stop.get_token()})), kCancelled);
    ended = base::Now();
  });
  ASSERT_TRUE(AwaitQueued(1));
  Punctuality punctuality;
  const base::Instant stopped = base::Now();
  stop.request_stop();
  crew.Join();
  punctuality.Note(stopped);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(Waiting, StoppedAfterItsEndDoesNotTouchTheHold) {
  std::stop_source stop;
  auto lease = lock_->Acquire({.stop = stop.get_token()});
  ASSERT_OK(lease);
  stop.request_stop();
  EXPECT_TRUE(lease->valid());
  EXPECT_FALSE(lease->lost().stop_requested());
  EXPECT_EQ(CodeOf(Try(*NewAny(owner_))), kBusy);
  EXPECT_OK(lease->Release());
}

}  // namespace
}  // namespace redlatch::conformance
