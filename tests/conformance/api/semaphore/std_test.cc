// The std face of a semaphore: that of std::counting_semaphore, across clients.
#include <semaphore>

#include "tests/conformance/api/lockable.h"
#include "tests/conformance/api/semaphore/fixture.h"

namespace redlatch::conformance {
namespace {

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
