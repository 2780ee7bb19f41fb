// Waiting: how long, in what order it ends, and what stops it.
#include <memory>
#include <stop_token>

#include "gtest/gtest.h"
#include "tests/conformance/api/conformance.h"
#include "tests/support/punctuality.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

class WaitingTest : public Conformance {
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

// Of whatever excludes others.
class Waiting : public WaitingTest {};
INSTANTIATE_FOR_ALL_THAT_EXCLUDE(Waiting);

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

TEST_P(Waiting, LeavesNoPlaceInTheQueueWhenItEnds) {
  Occupy();
  EXPECT_EQ(CodeOf(lock_->Acquire({.wait = absl::Milliseconds(5)})), kBusy);
  EXPECT_TRUE(AwaitQueued(0));
  EXPECT_OK(lease_->Release());
  EXPECT_OK(Try(*NewAny(owner_)));
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

class WaitingOfLocks : public WaitingTest {};
INSTANTIATE_CONFORMANCE(WaitingOfLocks);

TEST_P(WaitingOfLocks, EndsForAllThreadsOfAllClientsOneAfterTheOther) {
  Occupy();
  Protected shared;
  Crew crew;
  const Client others[] = {NewClient(), NewClient()};
  for (const Client& client : others) {
    crew.Start(3, [&](int) {
      const auto lock = NewLock(client);
      const auto lease = lock->Acquire({.wait = kPatience});
      ASSERT_OK(lease);
      shared.Touch(*lease);
    });
  }
  ASSERT_TRUE(AwaitQueued(2));
  EXPECT_OK(lease_->Release());
  crew.Join();
  EXPECT_EQ(shared.touches(), 6);
}

}  // namespace
}  // namespace redlatch::conformance
