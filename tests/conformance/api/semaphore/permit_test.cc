// Permits: what the handle says in each of its states, and how what it holds ends. What it has in
// common with a lease: ../release_test.cc.
#include "redlatch/permit.h"

#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "gtest/gtest.h"
#include "tests/conformance/api/semaphore/fixture.h"

namespace redlatch::conformance {
namespace {

constexpr absl::Duration kPermitLease = absl::Milliseconds(200);

static_assert(!std::is_copy_constructible_v<Permit> && !std::is_copy_assignable_v<Permit>);
static_assert(std::is_nothrow_default_constructible_v<Permit>);
static_assert(std::is_nothrow_move_constructible_v<Permit>);
static_assert(std::is_nothrow_move_assignable_v<Permit>);
static_assert(std::is_nothrow_destructible_v<Permit>);

class SemaphorePermit : public SemaphoreOfThree {
 protected:
  static void ExpectHeld(const Permit& permit, int64_t count) {
    EXPECT_TRUE(permit.valid());
    EXPECT_GT(permit.remaining(), absl::ZeroDuration());
    EXPECT_LT(permit.remaining(), kLease);
    EXPECT_FALSE(permit.lost().stop_requested());
    EXPECT_EQ(permit.count(), count);
  }
  static void ExpectOver(const Permit& permit, bool lost, int64_t count) {
    EXPECT_FALSE(permit.valid());
    EXPECT_EQ(permit.remaining(), absl::ZeroDuration());
    EXPECT_EQ(permit.lost().stop_requested(), lost);
    EXPECT_EQ(permit.count(), count);
  }
};

TEST_P(SemaphorePermit, SaysWhatItIsInEachState) {
  Permit empty;
  ExpectOver(empty, /*lost=*/false, 0);
  EXPECT_OK(empty.Release());
  EXPECT_EQ(CodeOf(empty.Extend(kLease)), kMisuse);

  auto released = Try(*semaphore_, 2);
  ASSERT_OK(released);
  ExpectHeld(*released, 2);
  EXPECT_TRUE(released->lost().stop_possible());
  EXPECT_OK(released->Release());
  ExpectOver(*released, /*lost=*/false, 2);

  auto lost = Try(*semaphore_);
  ASSERT_OK(lost);
  ExpectHeld(*lost, 1);
  EXPECT_OK(thirds_->ForceRelease());
  EXPECT_TRUE(Await([&] { return lost->lost().stop_requested(); }));
  ExpectOver(*lost, /*lost=*/true, 1);
  EXPECT_EQ(CodeOf(lost->Release()), kLost);
}

TEST_P(SemaphorePermit, OfSeveralIsOneHold) {
  auto two = Try(*semaphore_, 2);
  auto one = Try(*semaphore_);
  ASSERT_OK(two);
  ASSERT_OK(one);
  const auto holders = thirds_->holders();
  ASSERT_OK(holders);
  ASSERT_EQ(holders->size(), 2);
  EXPECT_EQ((*holders)[0].permits + (*holders)[1].permits, 3);
  EXPECT_NE((*holders)[0].permits, (*holders)[1].permits);
  EXPECT_EQ(CodeOf(Try(*theirs_)), kBusy);
  EXPECT_OK(two->Release());
  EXPECT_EQ(Free(*thirds_, 2), 2);
  EXPECT_TRUE(one->valid());
  EXPECT_TRUE(SoonGetsIn(*theirs_, 2));
  EXPECT_FALSE(GetsIn(*theirs_, 3));
}

TEST_P(SemaphorePermit, MovedTakesItsPermitsWithItAndAssignedOverGivesItsOwnBack) {
  Permit first = *Try(*semaphore_, 2);
  Permit second(std::move(first));
  ExpectOver(first, /*lost=*/false, 0);  // NOLINT(bugprone-use-after-move): it is empty
  EXPECT_OK(first.Release());            // NOLINT(bugprone-use-after-move)
  ExpectHeld(second, 2);
  Permit& same = second;
  second = std::move(same);
  ExpectHeld(second, 2);
  EXPECT_EQ(Free(*thirds_, kCapacity - 2), kCapacity - 2);
  second = *Try(*semaphore_);
  ExpectHeld(second, 1);
  EXPECT_EQ(Free(*thirds_, kCapacity - 1), kCapacity - 1);
  second = Permit();
  ExpectOver(second, /*lost=*/false, 0);
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
}

TEST_P(SemaphorePermit, GoesOnAnyThreadAndGivesItsPermitsBackThen) {
  auto permit = std::make_unique<Permit>(*Try(*semaphore_, 2));
  Crew().Start([&] { permit.reset(); });
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
}

TEST_P(SemaphorePermit, OutlivesItsSemaphoreAndClient) {
  const auto heard = std::make_shared<Recorder>();
  std::optional<Permit> permit =
      *Try(*NewSemaphore(NewClient({}, {.observer = heard}), {.lease = kPermitLease}), 2);
  EXPECT_TRUE(heard->Await("renewed", 4));
  EXPECT_TRUE(permit->valid());
  EXPECT_EQ(Free(*thirds_, kCapacity - 2), kCapacity - 2);
  EXPECT_OK(permit->Release());
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
  EXPECT_OK(permit->Release());
  permit.reset();
  EXPECT_EQ(heard->Count("lost"), 0);
}

TEST_P(SemaphorePermit, ThatIsTheLastOfItsClientGivesItsPermitsBackWhenItGoes) {
  { const Permit permit = *Try(*NewSemaphore(NewClient()), 2); }
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
}

TEST_P(SemaphorePermit, ThatOutlivesItsClientIsStillToldOfItsLoss) {
  Permit permit = *Try(*NewSemaphore(NewClient()));
  const std::stop_token lost = permit.lost();
  EXPECT_OK(thirds_->ForceRelease());
  EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  EXPECT_EQ(CodeOf(permit.Release()), kLost);
}

TEST_P(SemaphorePermit, WithALeaseOfItsOwnEndsWithItAndOthersDoNot) {
  const auto lasting = Try(*semaphore_);
  ASSERT_OK(lasting);
  auto manual = semaphore_->Acquire(2, {.wait = kPatience, .lease = kPermitLease});
  ASSERT_OK(manual);
  const base::Instant began = base::Now();
  const auto theirs = theirs_->Acquire(2, {.wait = kPatience});
  ASSERT_OK(theirs);
  EXPECT_GE(base::Now() - began, kPermitLease / 2);
  EXPECT_LT(base::Now() - began, kPermitLease + kSoon);
  EXPECT_TRUE(Await([&] { return manual->lost().stop_requested(); }));
  EXPECT_EQ(CodeOf(manual->Release()), kLost);
  EXPECT_TRUE(lasting->valid());
  EXPECT_EQ(Free(*thirds_, 0), 0);
}

TEST_P(SemaphorePermit, WithAShorterLeaseShortensNoOther) {
  const AcquireOptions brief{.wait = kPatience, .lease = kPermitLease};
  const auto longest = semaphore_->Acquire(1, {.wait = kPatience, .lease = kLease});
  ASSERT_OK(longest);
  const auto expect_kept = [&] {
    const int64_t kept = server().Integer({"PTTL", Auxiliary("permits")});
    EXPECT_GE(absl::Milliseconds(kept), longest->remaining());
  };
  auto beside = theirs_->Acquire(1, brief);
  auto last = thirds_->Acquire(1, brief);
  expect_kept();
  Waiter handed_over(*theirs_, 1, brief);
  ASSERT_TRUE(AwaitQueued(1));
  EXPECT_OK(last->Release());
  EXPECT_OK(handed_over.status());
  expect_kept();
  EXPECT_OK(beside->Release());
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity - 1));
  EXPECT_TRUE(longest->valid());
}

TEST_P(SemaphorePermit, IsHeardOfByTheObserver) {
  auto permit = Try(*semaphore_, kCapacity);
  ASSERT_OK(permit);
  EXPECT_EQ(CodeOf(semaphore_->Acquire(1, {.wait = kGrace})), kBusy);
  EXPECT_OK(permit->Release());
  ASSERT_TRUE(heard_->Await("released"));
  EXPECT_GE(heard_->Count("acquired"), 1);
  EXPECT_EQ(heard_->All("wait ended").back().status.code(), kBusy);
  EXPECT_OK(heard_->All("released")[0].status);
  EXPECT_EQ(heard_->All("acquired")[0].token, FencingToken());
}

INSTANTIATE_FOR_SEMAPHORE(SemaphorePermit);

}  // namespace
}  // namespace redlatch::conformance
