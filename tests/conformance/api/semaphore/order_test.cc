// Who comes when: first come, first served, whatever each asks for.
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/semaphore/fixture.h"

namespace redlatch::conformance {
namespace {

class SemaphoreOrder : public SemaphoreOfThree {
 protected:
  // So many are taken, by one hold.
  void Occupy(int64_t permits = kCapacity) {
    taken_ = *Try(*theirs_, permits);
    ASSERT_TRUE(taken_.valid());
  }
  // Waits for so many, behind all that wait already.
  std::unique_ptr<Waiter> Queue(Semaphore& semaphore, int64_t permits = 1,
                                const AcquireOptions& options = {.wait = kPatience}) {
    const int64_t before = Queued();
    auto waiter = std::make_unique<Waiter>(semaphore, permits, options);
    EXPECT_TRUE(AwaitQueued(before + 1));
    return waiter;
  }
  // By no heartbeat.
  void ExpectInSoonAfter(base::Instant event, Waiter& waiter) {
    EXPECT_OK(waiter.status());
    EXPECT_LT(waiter.ended() - event, kSoon);
  }

  Permit taken_;
};

TEST_P(SemaphoreOrder, WhoAskedFirstGetsInFirst) {
  std::vector<Permit> held;
  for (int i = 0; i < kCapacity; ++i) held.push_back(*Try(*theirs_));
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < 6; ++i) {
    waiters.push_back(Queue(i % 3 == 0 ? *semaphore_ : i % 3 == 1 ? *thirds_ : *theirs_));
  }
  for (size_t i = 0; i < waiters.size(); ++i) {
    EXPECT_OK(held[i].Release());
    EXPECT_TRUE(waiters[i]->AwaitDone()) << i;
    EXPECT_EQ(Queued(), static_cast<int64_t>(waiters.size() - i - 1));
    held.push_back(std::move(waiters[i]->permit()));
  }
}

TEST_P(SemaphoreOrder, ThreadsOfOneClientTakeTheirTurnsToo) {
  Occupy(kCapacity - 1);
  std::optional<Permit> last = *Try(*semaphore_);
  const auto first = Queue(*semaphore_);
  const auto second = Queue(*semaphore_);
  const auto stranger = Queue(*thirds_);
  const auto fourth = Queue(*semaphore_);
  EXPECT_EQ(Queued(), 4) << "each waits for itself";
  last.reset();
  for (Waiter* const next : {first.get(), second.get(), stranger.get(), fourth.get()}) {
    EXPECT_TRUE(next->AwaitDone());
    EXPECT_EQ(Free(*thirds_, 0), 0);
    EXPECT_OK(next->permit().Release());
  }
  EXPECT_EQ(Free(*thirds_, 1), 1);
}

TEST_P(SemaphoreOrder, ARequestForManyIsNotOvertakenByRequestsForFew) {
  Occupy(1);
  const auto many = Queue(*semaphore_, kCapacity);
  EXPECT_EQ(Free(*thirds_, kCapacity - 1), kCapacity - 1);
  EXPECT_EQ(CodeOf(Try(*thirds_)), kBusy);
  EXPECT_EQ(CodeOf(Try(*semaphore_)), kBusy) << "of the same client";
  EXPECT_EQ(CodeOf(thirds_->Acquire(1, {.wait = kGrace})), kBusy);
  const auto few = Queue(*thirds_);
  EXPECT_OK(taken_.Release());
  EXPECT_TRUE(many->AwaitDone());
  EXPECT_EQ(Queued(), 1);
  EXPECT_FALSE(few->done());
  EXPECT_OK(many->permit().Release());
  EXPECT_OK(few->status());
}

TEST_P(SemaphoreOrder, ARequestForAllGetsItsTurnUnderAStreamOfRequestsForOne) {
  std::atomic<bool> over{false};
  std::atomic<int64_t> ones{0};
  Crew crew;
  for (Semaphore* const semaphore : {theirs_.get(), thirds_.get()}) {
    crew.Start(3, [&, semaphore](int) {
      while (!over) {
        const auto one = semaphore->Acquire(1, {.wait = kPatience});
        EXPECT_OK(one);
        ++ones;
      }
    });
  }
  for (int i = 0; i < 5; ++i) {
    const int64_t before = ones;
    EXPECT_TRUE(Await([&] { return ones > before + 10; }));
    const base::Instant asked = base::Now();
    const auto all = semaphore_->Acquire(kCapacity, {.wait = kPatience});
    EXPECT_OK(all);
    EXPECT_LT(base::Now() - asked, kSoon);
    const int64_t alone = ones;
    EXPECT_EQ(Free(*semaphore_, 0), 0);
    EXPECT_EQ(ones, alone) << "somebody is in beside it";
  }
  over = true;
}

TEST_P(SemaphoreOrder, OneReleaseLetsInAsManyAsFit) {
  Occupy();
  const auto first = Queue(*semaphore_);
  const auto second = Queue(*thirds_, 2);
  const auto third = Queue(*semaphore_);
  const base::Instant released = base::Now();
  EXPECT_OK(taken_.Release());
  EXPECT_EQ(Queued(), 1);
  ExpectInSoonAfter(released, *first);
  ExpectInSoonAfter(released, *second);
  EXPECT_FALSE(third->done());
  EXPECT_OK(second->permit().Release());
  EXPECT_OK(third->status());
  EXPECT_EQ(Free(*thirds_, 1), 1);
}

TEST_P(SemaphoreOrder, PermitsGatherForTheHead) {
  std::vector<Permit> held;
  for (int i = 0; i < kCapacity; ++i) held.push_back(*Try(i == 0 ? *theirs_ : *semaphore_));
  const auto all = Queue(*thirds_, kCapacity);
  const auto one = Queue(*semaphore_);
  for (int i = 0; i < kCapacity; ++i) {
    EXPECT_FALSE(all->done() || one->done());
    EXPECT_EQ(Free(*thirds_, i), i);
    EXPECT_EQ(Queued(), 2);
    EXPECT_OK(held[static_cast<size_t>(i)].Release());
  }
  EXPECT_OK(all->status());
  EXPECT_FALSE(one->done());
  EXPECT_OK(all->permit().Release());
}

TEST_P(SemaphoreOrder, AHeadWhoseTimeIsUpLetsThoseBehindItIn) {
  Occupy(1);
  const absl::Duration wait = absl::Milliseconds(300);
  const base::Instant asked = base::Now();
  const auto many = Queue(*semaphore_, kCapacity, {.wait = wait});
  const auto first = Queue(*thirds_);
  const auto second = Queue(*semaphore_);
  EXPECT_EQ(many->code(), kBusy);
  ExpectInSoonAfter(asked + wait, *first);
  ExpectInSoonAfter(asked + wait, *second);
}

TEST_P(SemaphoreOrder, AHeadThatIsStoppedLetsThoseBehindItIn) {
  Occupy(1);
  std::stop_source stop;
  const auto many = Queue(*semaphore_, kCapacity, {.stop = stop.get_token()});
  const auto first = Queue(*thirds_);
  const auto second = Queue(*semaphore_);
  const base::Instant stopped = base::Now();
  stop.request_stop();
  EXPECT_EQ(many->code(), kCancelled);
  ExpectInSoonAfter(stopped, *first);
  ExpectInSoonAfter(stopped, *second);
}

TEST_P(SemaphoreOrder, AHeadWhoseObjectGoesLetsThoseBehindItIn) {
  Occupy(1);
  auto semaphore = NewSemaphore(NewClient());
  const auto many = Queue(*semaphore, kCapacity, {});
  const auto few = Queue(*thirds_);
  const base::Instant gone = base::Now();
  semaphore.reset();
  EXPECT_EQ(many->code(), kCancelled);
  ExpectInSoonAfter(gone, *few);
}

TEST_P(SemaphoreOrder, OneInTheMiddleThatGivesUpChangesNothingForTheOthers) {
  Occupy();
  std::stop_source stop;
  const auto first = Queue(*semaphore_, 2);
  const auto second = Queue(*thirds_, 3, {.stop = stop.get_token()});
  const auto third = Queue(*semaphore_);
  stop.request_stop();
  EXPECT_EQ(second->code(), kCancelled);
  EXPECT_TRUE(AwaitQueued(2));
  EXPECT_OK(taken_.Release());
  EXPECT_OK(first->status());
  EXPECT_OK(third->status());
  EXPECT_EQ(Free(*thirds_, 0), 0);
}

TEST_P(SemaphoreOrder, WhoeverComesWhileNobodyWaitsGetsInAtOnce) {
  Occupy(1);
  EXPECT_TRUE(SoonGetsIn(*thirds_, kCapacity - 1));
  EXPECT_EQ(CodeOf(Try(*thirds_, kCapacity)), kBusy);
  EXPECT_TRUE(SoonGetsIn(*thirds_, kCapacity - 1)) << "one that only tried holds up nobody";
}

TEST_P(SemaphoreOrder, AForcedReleaseLetsInThoseWhoWait) {
  Occupy();
  const auto two = Queue(*semaphore_, 2);
  const auto one = Queue(*thirds_);
  const auto more = Queue(*semaphore_);
  const base::Instant forced = base::Now();
  EXPECT_OK(thirds_->ForceRelease());
  ExpectInSoonAfter(forced, *two);
  ExpectInSoonAfter(forced, *one);
  EXPECT_FALSE(more->done());
  EXPECT_EQ(CodeOf(taken_.Release()), kLost);
  EXPECT_FALSE(more->done());
  EXPECT_EQ(Free(*thirds_, 0), 0);
  EXPECT_OK(one->permit().Release());
  EXPECT_OK(more->status());
  EXPECT_OK(more->permit().Release());
  EXPECT_OK(two->permit().Release());
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
  EXPECT_TRUE(SoonGetsIn(*thirds_, kCapacity)) << "whatever many had by force is forgotten";
}

INSTANTIATE_FOR_SEMAPHORE(SemaphoreOrder);

}  // namespace
}  // namespace redlatch::conformance
