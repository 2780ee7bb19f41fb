// Permits: what the handle reports in each state, and how its permits end. ../release_test.cc tests
// what it shares with a lease.
#include <semaphore>
#include <type_traits>

#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

constexpr absl::Duration kPermitLease = absl::Seconds(1);

static_assert(!std::is_copy_constructible_v<Permit> && !std::is_copy_assignable_v<Permit>);
static_assert(std::is_nothrow_default_constructible_v<Permit>);
static_assert(std::is_nothrow_move_constructible_v<Permit>);
static_assert(std::is_nothrow_move_assignable_v<Permit>);
static_assert(std::is_nothrow_destructible_v<Permit>);

struct SemaphorePermit : SemaphoreOfThree {
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

INSTANTIATE_CONFORMANCE(SemaphorePermit, WithoutSmoke(CasesOf("semaphore")));

TEST_P(SemaphorePermit, ReportsItsState) {
  Permit empty;
  ExpectOver(empty, /*lost=*/false, 0);
  EXPECT_OK(empty.Release());
  EXPECT_EQ(CodeOf(empty.Extend(kLease)), kMisuse);

  auto released = Must(Try(*semaphore_, 2));
  ExpectHeld(released, 2);
  EXPECT_TRUE(released.lost().stop_possible());
  EXPECT_OK(released.Release());
  ExpectOver(released, /*lost=*/false, 2);

  auto lost = Must(Try(*semaphore_));
  ExpectHeld(lost, 1);
  EXPECT_OK(thirds_->ForceRelease());
  EXPECT_TRUE(Await([&] { return lost.lost().stop_requested(); }));
  ExpectOver(lost, /*lost=*/true, 1);
  EXPECT_EQ(CodeOf(lost.Release()), kLost);
}

TEST_P(SemaphorePermit, MoveTransfersAndAssignmentReleases) {
  Permit first = *Try(*semaphore_, 2);
  Permit second(std::move(first));
  ExpectOver(first, /*lost=*/false, 0);  // NOLINT(bugprone-use-after-move): it is empty
  EXPECT_OK(first.Release());            // NOLINT(bugprone-use-after-move)
  ExpectHeld(second, 2);
  Permit& same = second;
  second = std::move(same);
  ExpectHeld(second, 2);
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity - 2));
  second = *Try(*semaphore_);
  ExpectHeld(second, 1);
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity - 1));
  second = Permit();
  ExpectOver(second, /*lost=*/false, 0);
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity));
}

TEST_P(SemaphorePermit, TwoPermitsAfterAReleaseAreHeldAtOnce) {
  EXPECT_OK(Must(Try(*semaphore_)).Release());
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity));
  const Permit first = Must(Try(*semaphore_));
  const Permit second = Must(Try(*semaphore_));
  ExpectHeld(second, 1);
}

TEST_P(SemaphorePermit, LossOfOneHoldLeavesOthersValid) {
  auto manual = Must(semaphore_->Acquire(1, {.wait = kTestTimeout, .lease = kPermitLease}));
  auto renewed = Must(semaphore_->Acquire(1));
  EXPECT_TRUE(Await([&] { return manual.lost().stop_requested(); }));
  EXPECT_TRUE(AwaitFree(*theirs_, kCapacity - 1));
  EXPECT_TRUE(renewed.valid());
  EXPECT_FALSE(renewed.lost().stop_requested());
  EXPECT_OK(renewed.Release());
  EXPECT_EQ(CodeOf(manual.Release()), kLost);
  EXPECT_TRUE(recorder_->Await("lost"));
  EXPECT_EQ(recorder_->Count("lost"), 1);
}

struct SemaphoreWaiting : SemaphoreOfThree {
  // Takes all permits for the rest of the test.
  void Occupy() {
    taken_ = *Try(*theirs_, kCapacity);
    ASSERT_TRUE(taken_.valid());
  }
  Permit taken_;
};

TEST_P(SemaphoreWaiting, DestructorCancelsOnlyItsOwnWaiters) {
  Occupy();
  auto goes = NewSemaphore(client_);
  Crew ended;
  const auto expect_cancelled = [&goes = *goes](int64_t permits) {
    EXPECT_EQ(CodeOf(goes.Acquire(permits)), kCancelled);
  };
  ended.Start([&] { expect_cancelled(1); });
  ASSERT_TRUE(AwaitQueued(1));
  std::atomic<bool> done{false};
  Crew stays;
  stays.Start([&] {
    EXPECT_OK(semaphore_->Acquire(1, {.wait = kTestTimeout}));
    done = true;
  });
  ASSERT_TRUE(AwaitQueued(2));
  ended.Start([&] { expect_cancelled(2); });
  ASSERT_TRUE(AwaitQueued(3));
  goes.reset();
  ended.Join();
  EXPECT_TRUE(AwaitQueued(1));
  EXPECT_FALSE(done);
  EXPECT_OK(taken_.Release());
}

TEST_P(SemaphoreWaiting, LastObjectReleasesAllButPermits) {
  const Client client = NewClient();
  auto first = NewSemaphore(client);
  auto last = NewSemaphore(client);
  std::optional<Permit> permit;
  first->acquire();
  EXPECT_TRUE(last->try_acquire_for(std::chrono::seconds(5)));
  permit = *Try(*first);
  first.reset();
  EXPECT_TRUE(AwaitFree(*thirds_, 0));
  last.reset();
  EXPECT_TRUE(AwaitFree(*thirds_, 2));
  EXPECT_TRUE(permit->valid());
  const auto again = NewSemaphore(client);
  EXPECT_EQ(Thrown([&] { again->release(); }), kMisuse) << "nothing is left of them";
  EXPECT_TRUE(AwaitFree(*thirds_, 2));
  permit.reset();
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity));
}

TEST_P(SemaphoreWaiting, SuccessDuringDestructionLeaksNoPermit) {
  for (int i = 0; i < support::Scaled(100); ++i) {
    auto all = Must(Try(*theirs_, kCapacity));
    auto goes = NewSemaphore(client_);
    Crew crew;
    crew.Start([&goes = *goes] {
      const absl::StatusCode thrown = Thrown([&] { goes.acquire(); });
      EXPECT_TRUE(thrown == kOk || thrown == kCancelled) << absl::StatusCodeToString(thrown);
    });
    ASSERT_TRUE(AwaitQueued(1));
    crew.Start([&] { EXPECT_OK(all.Release()); });
    // The message takes about that long.
    base::Parker().ParkUntil(base::Now() + absl::Microseconds(3 * i));
    goes.reset();
    crew.Join();
    ASSERT_TRUE(AwaitFree(*thirds_));
  }
}

INSTANTIATE_CONFORMANCE(SemaphoreWaiting, WithoutSmoke(CasesOf("semaphore")));

using SemaphoreUnreachable = WithOutages<SemaphoreConformance>;

TEST_P(SemaphoreUnreachable, ServerFailsInspectionAndCapacityCalls) {
  const Outage outage(server(), How::kIsDown);
  // A request that is abandoned without a reply leaves a tombstone for the length of its lease.
  const auto semaphore =
      NewSemaphore(NewClient({.connect = ConnectPolicy::kLazy}), {.lease = kLease / 5});
  EXPECT_EQ(CodeOf(semaphore->SetCapacity(5)), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->Inspect()), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->ForceRelease()), kUnreachable);
}

INSTANTIATE_CONFORMANCE(SemaphoreUnreachable, OverTcp(CasesOf("semaphore")));

// The std interface of a semaphore: that of std::counting_semaphore, across clients.

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

template <class S>
concept CountingSemaphore = requires(S& semaphore) {
  { semaphore.acquire() } -> std::same_as<void>;
  { semaphore.try_acquire() } -> std::same_as<bool>;
  { semaphore.try_acquire_for(std::chrono::nanoseconds(1)) } -> std::same_as<bool>;
  { semaphore.try_acquire_for(std::chrono::duration<double>(0.5)) } -> std::same_as<bool>;
  { semaphore.try_acquire_for(std::chrono::hours(1)) } -> std::same_as<bool>;
  { semaphore.try_acquire_until(steady_clock::now()) } -> std::same_as<bool>;
  { semaphore.try_acquire_until(system_clock::now()) } -> std::same_as<bool>;
  { semaphore.release() } -> std::same_as<void>;
  { semaphore.release(std::ptrdiff_t{2}) } -> std::same_as<void>;
};
static_assert(CountingSemaphore<std::counting_semaphore<>>);
static_assert(CountingSemaphore<Semaphore> && Unmovable<Semaphore>);

class SemaphoreStd : public SemaphoreOfThree {};

TEST_P(SemaphoreStd, LimitsHoldersToCapacity) {
  semaphore_->acquire();
  theirs_->acquire();
  EXPECT_TRUE(thirds_->try_acquire_for(std::chrono::seconds(5)));
  EXPECT_TRUE(AwaitFree(*thirds_, 0));
  EXPECT_FALSE(GetsIn(*semaphore_));
  EXPECT_FALSE(theirs_->try_acquire_for(milliseconds(5)));
  theirs_->release();
  EXPECT_TRUE(AwaitFree(*thirds_, 1));
  EXPECT_TRUE(semaphore_->try_acquire_for(std::chrono::seconds(5)));
  EXPECT_FALSE(GetsIn(*thirds_));
}

TEST_P(SemaphoreStd, AnyThreadMayRelease) {
  Crew().Start([&] { semaphore_->acquire(); });
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity - 1));
  Crew().Start([&] { semaphore_->release(); });
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity));
}

TEST_P(SemaphoreStd, ObjectsOfOneNameSharePermits) {
  const auto same = NewSemaphore(client_);
  semaphore_->acquire();
  same->acquire();
  same->release(2);
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity));
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
}

TEST_P(SemaphoreStd, ReleaseOfTooManyOrFewerThanNoneThrows) {
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);  // the semaphore is unused
  semaphore_->acquire();
  theirs_->acquire();
  for (const std::ptrdiff_t permits :
       {std::numeric_limits<std::ptrdiff_t>::min(), std::ptrdiff_t{-1}, std::ptrdiff_t{2},
        std::ptrdiff_t{3}, std::numeric_limits<std::ptrdiff_t>::max()}) {
    EXPECT_EQ(Thrown([&] { semaphore_->release(permits); }), permits < 0 ? kBadInput : kMisuse)
        << permits;
    EXPECT_TRUE(AwaitFree(*thirds_, 1));
  }
  (void)Thrown([&] { semaphore_->release(0); });
  EXPECT_TRUE(AwaitFree(*thirds_, 1));
  semaphore_->release();
  EXPECT_TRUE(AwaitFree(*thirds_, 2));
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
  EXPECT_TRUE(AwaitFree(*thirds_, 2));
  theirs_->release();
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity));
}

TEST_P(SemaphoreStd, ReleaseDoesNotTouchPermitObjects) {
  const auto permit = Must(Try(*semaphore_, 2));
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
  semaphore_->acquire();
  semaphore_->release();
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
  EXPECT_TRUE(permit.valid());
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity - 2));
}

TEST_P(SemaphoreStd, ReleaseBeginsWithLostPermits) {
  semaphore_->acquire();
  semaphore_->acquire();
  EXPECT_OK(thirds_->ForceRelease());
  ASSERT_TRUE(recorder_->Await("lost", 2));
  semaphore_->acquire();
  semaphore_->release(2);
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity - 1));
  semaphore_->release();
  EXPECT_TRUE(AwaitFree(*thirds_, kCapacity));
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
}

TEST_P(SemaphoreStd, TimedCallsGetFreeOrReleasedPermits) {
  EXPECT_TRUE(semaphore_->try_acquire_until(steady_clock::now() + std::chrono::hours(1)));
  EXPECT_TRUE(semaphore_->try_acquire_for(std::chrono::hours::max()));
  EXPECT_TRUE(semaphore_->try_acquire_for(std::chrono::duration<double>(5)));
  Crew crew;
  crew.Start([&] { EXPECT_TRUE(theirs_->try_acquire_for(std::chrono::seconds(10))); });
  ASSERT_TRUE(AwaitQueued(1));
  semaphore_->release();
  crew.Join();
  EXPECT_FALSE(GetsIn(*thirds_));
}

TEST_P(SemaphoreStd, ThrowsErrorsWithTheirCodes) {
  const auto bad = NewSemaphore(client_, kCapacity, "");
  EXPECT_EQ(Thrown([&] { bad->acquire(); }), kBadInput);
  EXPECT_EQ(Thrown([&] { (void)bad->try_acquire(); }), kBadInput);
  EXPECT_EQ(Thrown([&] { (void)bad->try_acquire_for(milliseconds(5)); }), kBadInput);
  EXPECT_EQ(CodeOf(bad->SetCapacity(5)), kBadInput);
  EXPECT_EQ(CodeOf(bad->Inspect()), kBadInput);
  EXPECT_EQ(CodeOf(bad->ForceRelease()), kBadInput);
  EXPECT_EQ(server().LockKeys().size(), 0);
}

INSTANTIATE_CONFORMANCE(SemaphoreStd, CasesOf("semaphore"));

// The capacity: who sets it, which capacities are refused, and how a change affects holders and
// waiters.

struct SemaphoreCapacity : SemaphoreOfThree {
  void ExpectCapacity(int64_t capacity) {
    const auto info = Must(semaphore_->Inspect());
    EXPECT_EQ(info.capacity, capacity);
  }
  // Every use is refused, and the message names both capacities.
  static void ExpectRefused(Semaphore& semaphore, int64_t own, int64_t stored) {
    std::vector<absl::Status> refusals = {Try(semaphore).status(),
                                          semaphore.Acquire(1, {.wait = kTestTimeout}).status(),
                                          semaphore.Acquire().status()};
    for (const absl::Status& refusal : refusals) {
      EXPECT_EQ(CodeOf(refusal), kMisuse);
      EXPECT_THAT(std::string(refusal.message()), HasSubstr(absl::StrCat(own)));
      EXPECT_THAT(std::string(refusal.message()), HasSubstr(absl::StrCat(stored)));
    }
    EXPECT_EQ(Thrown([&] { semaphore.acquire(); }), kMisuse);
    EXPECT_EQ(Thrown([&] { (void)semaphore.try_acquire_for(std::chrono::seconds(5)); }), kMisuse);
  }
};

TEST_P(SemaphoreCapacity, RefusesCapacityUnlikeTheFirst) {
  ExpectCapacity(kCapacity);  // though it is not stored yet
  EXPECT_TRUE(AwaitFree(*semaphore_, kCapacity));
  EXPECT_EQ(server().LockKeys().size(), 0);
  auto permit = Must(Try(*semaphore_));
  ExpectCapacity(kCapacity);
  for (const int64_t other : {int64_t{41}, int64_t{1}}) {
    ExpectRefused(*NewSemaphore(other_, other), other, kCapacity);
    ExpectRefused(*NewSemaphore(client_, other), other, kCapacity);
  }
  ExpectCapacity(kCapacity);
  EXPECT_EQ(Queued(), 0);
  EXPECT_TRUE(permit.valid());
  EXPECT_TRUE(SoonGetsIn(*theirs_, kCapacity - 1));
}

TEST_P(SemaphoreCapacity, RefusesLessThanOne) {
  EXPECT_TRUE(SoonGetsIn(*semaphore_));
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(CodeOf(semaphore_->SetCapacity(bad)), kBadInput) << bad;
    const auto refused = NewSemaphore(other_, bad);
    EXPECT_EQ(CodeOf(refused->TryAcquire()), kBadInput) << bad;
    EXPECT_EQ(CodeOf(refused->Acquire()), kBadInput) << bad;
    EXPECT_EQ(Thrown([&] { refused->acquire(); }), kBadInput) << bad;
  }
  ExpectCapacity(kCapacity);
}

TEST_P(SemaphoreCapacity, LimitsEachRequest) {
  for (const absl::Duration wait :
       {absl::ZeroDuration(), absl::Milliseconds(50), absl::InfiniteDuration()}) {
    EXPECT_EQ(CodeOf(semaphore_->Acquire(kCapacity + 1, {.wait = wait})), kMisuse);
    EXPECT_EQ(CodeOf(theirs_->Acquire(1'000'000'000, {.wait = wait})), kMisuse);
    for (const int64_t bad :
         {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(), int64_t{1'000'000'001},
          (int64_t{1} << 32) + 1, std::numeric_limits<int64_t>::max()}) {
      EXPECT_EQ(CodeOf(semaphore_->Acquire(bad, {.wait = wait})), kBadInput) << bad;
    }
  }
  EXPECT_EQ(Queued(), 0);
  EXPECT_TRUE(SoonGetsIn(*semaphore_, kCapacity));
}

INSTANTIATE_CONFORMANCE(SemaphoreCapacity, WithoutSmoke(CasesOf("semaphore")));

}  // namespace
}  // namespace redlatch::conformance
