// Permits: what the handle says in each of its states, and how what it holds ends. What it has in
// common with a lease: ../release_test.cc.
#include <semaphore>
#include <type_traits>

#include "tests/conformance/api/lockable.h"
#include "tests/conformance/api/outage.h"
#include "tests/conformance/api/semaphore/fixture.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

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

INSTANTIATE_CONFORMANCE(SemaphorePermit, WithoutSmoke(CasesOf("semaphore")));

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

TEST_P(SemaphorePermit, LossOfOneHoldIsNoneOfTheOthers) {
  auto manual = semaphore_->Acquire(1, {.wait = kPatience, .lease = kPermitLease});
  auto renewed = semaphore_->Acquire(1);
  ASSERT_OK(manual);
  ASSERT_OK(renewed);
  EXPECT_TRUE(Await([&] { return manual->lost().stop_requested(); }));
  EXPECT_TRUE(AwaitFree(*theirs_, kCapacity - 1));
  EXPECT_TRUE(renewed->valid());
  EXPECT_FALSE(renewed->lost().stop_requested());
  EXPECT_OK(renewed->Release());
  EXPECT_EQ(CodeOf(manual->Release()), kLost);
  EXPECT_TRUE(heard_->Await("lost"));
  EXPECT_EQ(heard_->Count("lost"), 1);
}

TEST_P(SemaphorePermit, AForkedChildIsRefusedAndItsParentUnharmed) {
  std::optional<Client> client = NewClient({}, {.observer = heard_});
  auto semaphore = NewSemaphore(*client);
  auto untouched = NewSemaphore(*client, kCapacity, "untouched");
  std::optional<Permit> permit = *Try(*semaphore);
  semaphore->acquire();
  const auto child = support::Child::Fork([&](support::LinePipe&) {
    const bool refused =
        CodeOf(semaphore->TryAcquire()) == kMisuse && CodeOf(semaphore->Acquire()) == kMisuse &&
        CodeOf(untouched->TryAcquire()) == kMisuse && CodeOf(semaphore->Inspect()) == kMisuse &&
        CodeOf(semaphore->capacity()) == kMisuse && CodeOf(semaphore->available()) == kMisuse &&
        CodeOf(semaphore->SetCapacity(1)) == kMisuse &&
        CodeOf(semaphore->ForceRelease()) == kMisuse && CodeOf(permit->Extend(kLease)) == kMisuse &&
        Thrown([&] { semaphore->acquire(); }) == kMisuse &&
        Thrown([&] { (void)semaphore->try_acquire(); }) == kMisuse &&
        Thrown([&] { semaphore->release(); }) == kMisuse;
    const bool nothing = !permit->valid() && CodeOf(permit->Release()) == kMisuse;
    permit.reset();
    semaphore.reset();
    untouched.reset();
    client.reset();
    return refused && nothing ? 0 : 1;
  });
  EXPECT_EQ(child->Wait().code, 0);
  EXPECT_TRUE(permit->valid());
  EXPECT_EQ(Free(*thirds_, kCapacity - 2), kCapacity - 2);
  EXPECT_TRUE(heard_->Await("renewed", 2));  // by the parent's connection, which is unharmed
  EXPECT_OK(permit->Release());
  semaphore->release();
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
  EXPECT_EQ(heard_->Count("lost"), 0);
}

class SemaphoreWaiting : public SemaphoreOfThree {
 protected:
  // All are taken, for as long as this test.
  void Occupy() {
    taken_ = *Try(*theirs_, kCapacity);
    ASSERT_TRUE(taken_.valid());
  }
  Permit taken_;
};

TEST_P(SemaphoreWaiting, EndsWithTheObjectInWhichItIsAndGoesOnInOthers) {
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
    EXPECT_OK(semaphore_->Acquire(1, {.wait = kPatience}));
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

TEST_P(SemaphoreWaiting, OfAcquireThrowsWhereItsObjectGoes) {
  Occupy();
  auto goes = NewSemaphore(client_);
  Crew crew;
  crew.Start(2, [&goes = *goes](int) { EXPECT_EQ(Thrown([&] { goes.acquire(); }), kCancelled); });
  ASSERT_TRUE(AwaitQueued(2));
  goes.reset();
  crew.Join();
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(SemaphoreWaiting, TheLastObjectGivesBackWhatAcquireHasTakenAndNoPermit) {
  const Client client = NewClient();
  auto first = NewSemaphore(client);
  auto last = NewSemaphore(client);
  std::optional<Permit> permit;
  first->acquire();
  EXPECT_TRUE(last->try_acquire_for(std::chrono::seconds(5)));
  permit = *Try(*first);
  first.reset();
  EXPECT_EQ(Free(*thirds_, 0), 0);
  last.reset();
  EXPECT_TRUE(AwaitFree(*thirds_, 2));
  EXPECT_TRUE(permit->valid());
  const auto again = NewSemaphore(client);
  EXPECT_EQ(Thrown([&] { again->release(); }), kMisuse) << "nothing is left of them";
  EXPECT_EQ(Free(*thirds_, 2), 2);
  permit.reset();
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
}

TEST_P(SemaphoreWaiting, ThatSucceedsJustWhenItsObjectGoesKeepsNoPermit) {
  for (int i = 0; i < support::Scaled(100); ++i) {
    auto all = Try(*theirs_, kCapacity);
    ASSERT_OK(all);
    auto goes = NewSemaphore(client_);
    Crew crew;
    crew.Start([&goes = *goes] {
      const absl::StatusCode thrown = Thrown([&] { goes.acquire(); });
      EXPECT_TRUE(thrown == kOk || thrown == kCancelled) << absl::StatusCodeToString(thrown);
    });
    ASSERT_TRUE(AwaitQueued(1));
    crew.Start([&] { EXPECT_OK(all->Release()); });
    // The message takes about so long.
    base::Parker().ParkUntil(base::Now() + absl::Microseconds(3 * i));
    goes.reset();
    crew.Join();
    ASSERT_TRUE(AwaitFree(*thirds_));
  }
}

INSTANTIATE_CONFORMANCE(SemaphoreWaiting, WithoutSmoke(CasesOf("semaphore")));

using SemaphoreUnreachable = WithOutages<SemaphoreConformance>;

TEST_P(SemaphoreUnreachable, ServerIsNoLackOfPermitsThoughThisClientHasThemAll) {
  const auto semaphore = NewSemaphore(NewClient());
  const auto all = Try(*semaphore, kCapacity);
  ASSERT_OK(all);
  {
    const Outage outage(server(), How::kHangs);
    EXPECT_EQ(CodeOf(semaphore->TryAcquire()), kUnreachable);
    EXPECT_TRUE(all->valid());
  }
}

TEST_P(SemaphoreUnreachable, ServerFailsWhoAsksAboutIt) {
  const Outage outage(server(), How::kIsDown);
  // What is given up without an answer leaves a tombstone, for as long as its lease.
  const auto semaphore =
      NewSemaphore(NewClient({.connect = ConnectPolicy::kLazy}), {.lease = kLease / 5});
  EXPECT_EQ(CodeOf(semaphore->SetCapacity(5)), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->available()), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->ForceRelease()), kUnreachable);
}

INSTANTIATE_CONFORMANCE(SemaphoreUnreachable, OverTcp(CasesOf("semaphore")));

// The std face of a semaphore: that of std::counting_semaphore, across clients.

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

TEST_P(SemaphoreStd, SoManyGetInAndNoMore) {
  semaphore_->acquire();
  theirs_->acquire();
  EXPECT_TRUE(thirds_->try_acquire_for(std::chrono::seconds(5)));
  EXPECT_EQ(Free(*thirds_, 0), 0);
  EXPECT_FALSE(GetsIn(*semaphore_));
  EXPECT_FALSE(theirs_->try_acquire_for(milliseconds(5)));
  theirs_->release();
  EXPECT_EQ(Free(*thirds_, 1), 1);
  EXPECT_TRUE(semaphore_->try_acquire_for(std::chrono::seconds(5)));
  EXPECT_FALSE(GetsIn(*thirds_));
}

TEST_P(SemaphoreStd, TryAcquireIsFalseWhereNoneIsLeft) {
  const auto all = Try(*theirs_, kCapacity);
  ASSERT_OK(all);
  // A machine that runs it late has no answer: that is thrown, and not said of the semaphore.
  EXPECT_TRUE(Await([&] {
    absl::StatusCode thrown = kOk;
    bool got = true;
    thrown = Thrown([&] { got = semaphore_->try_acquire(); });
    EXPECT_TRUE(thrown == kOk || thrown == kUnreachable);
    EXPECT_FALSE(thrown == kOk && got);
    return thrown == kOk;
  }));
}

TEST_P(SemaphoreStd, AnyThreadGivesBackWhatAnotherHasTaken) {
  Crew().Start([&] { semaphore_->acquire(); });
  EXPECT_EQ(Free(*thirds_, kCapacity - 1), kCapacity - 1);
  Crew().Start([&] { semaphore_->release(); });
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
}

TEST_P(SemaphoreStd, ObjectsOfOneNameOnOneClientHaveTheirPermitsInCommon) {
  const auto same = NewSemaphore(client_);
  semaphore_->acquire();
  same->acquire();
  same->release(2);
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
}

TEST_P(SemaphoreStd, ReleaseOfMoreThanWereTakenThrowsAndChangesNothing) {
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);  // of a semaphore never used
  semaphore_->acquire();
  theirs_->acquire();
  for (const std::ptrdiff_t permits :
       {std::ptrdiff_t{2}, std::ptrdiff_t{3}, std::numeric_limits<std::ptrdiff_t>::max()}) {
    EXPECT_EQ(Thrown([&] { semaphore_->release(permits); }), kMisuse) << permits;
    EXPECT_EQ(Free(*thirds_, 1), 1);
  }
  semaphore_->release();
  EXPECT_EQ(Free(*thirds_, 2), 2);
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
  EXPECT_EQ(Free(*thirds_, 2), 2);
  theirs_->release();
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
}

TEST_P(SemaphoreStd, ReleaseOfLessThanOneChangesNothing) {
  semaphore_->acquire();
  for (const std::ptrdiff_t permits :
       {std::ptrdiff_t{-1}, std::numeric_limits<std::ptrdiff_t>::min()}) {
    EXPECT_NE(Thrown([&] { semaphore_->release(permits); }), kOk) << permits;
    EXPECT_EQ(Free(*thirds_, kCapacity - 1), kCapacity - 1);
  }
  (void)Thrown([&] { semaphore_->release(0); });
  EXPECT_EQ(Free(*thirds_, kCapacity - 1), kCapacity - 1);
  semaphore_->release();
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
}

TEST_P(SemaphoreStd, ReleaseDoesNotTouchAPermit) {
  const auto permit = Try(*semaphore_, 2);
  ASSERT_OK(permit);
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
  semaphore_->acquire();
  semaphore_->release();
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
  EXPECT_TRUE(permit->valid());
  EXPECT_EQ(Free(*thirds_, kCapacity - 2), kCapacity - 2);
}

TEST_P(SemaphoreStd, ReleaseBeginsWithThoseThatWereLost) {
  semaphore_->acquire();
  semaphore_->acquire();
  EXPECT_OK(thirds_->ForceRelease());
  ASSERT_TRUE(heard_->Await("lost", 2));
  semaphore_->acquire();
  semaphore_->release(2);
  EXPECT_EQ(Free(*thirds_, kCapacity - 1), kCapacity - 1);
  semaphore_->release();
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
}

TEST_P(SemaphoreStd, TimedOnesTakeWhatIsFreeAtOnceAndWhatIsGivenBackMeanwhile) {
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

TEST_P(SemaphoreStd, ErrorsAreThrownWithTheirCodes) {
  const auto bad = NewSemaphore(client_, kCapacity, "");
  EXPECT_EQ(Thrown([&] { bad->acquire(); }), kBadInput);
  EXPECT_EQ(Thrown([&] { (void)bad->try_acquire(); }), kBadInput);
  EXPECT_EQ(Thrown([&] { (void)bad->try_acquire_for(milliseconds(5)); }), kBadInput);
  EXPECT_EQ(server().LockKeys().size(), 0);
}

INSTANTIATE_CONFORMANCE(SemaphoreStd, CasesOf("semaphore"));

}  // namespace
}  // namespace redlatch::conformance
