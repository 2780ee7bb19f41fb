// A server that hangs, is down or is not there yet: it is never taken for a semaphore without free
// permits. What it has in common with the locks: ../unreachable_test.cc.
#include <memory>

#include "gtest/gtest.h"
#include "tests/conformance/api/outage.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/punctuality.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

class SemaphoreUnreachable : public WithOutages<SemaphoreConformance> {
 protected:
  // What is given up without an answer leaves a tombstone, for as long as its lease.
  static std::unique_ptr<Semaphore> NewShort(const Client& client) {
    return NewSemaphore(client, {.lease = kLease / 5});
  }
};

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
  const auto semaphore = NewShort(NewClient({.connect = ConnectPolicy::kLazy}));
  EXPECT_EQ(CodeOf(semaphore->SetCapacity(5)), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->available()), kUnreachable);
  EXPECT_EQ(CodeOf(semaphore->ForceRelease()), kUnreachable);
}

TEST_P(SemaphoreUnreachable, ServerDelaysAReleaseNoLongerThanTheCommandTimeout) {
  const auto semaphore = NewSemaphore(NewClient(), {.lease = kPatience});
  auto released = Try(*semaphore);
  auto dropped = std::make_optional(*Try(*semaphore));
  semaphore->acquire();
  Punctuality punctuality;
  {
    const Outage outage(server(), How::kHangs);
    base::Instant deadline = base::Now() + kTimeout;
    EXPECT_EQ(CodeOf(released->Release()), kUnreachable);
    punctuality.Note(deadline);
    EXPECT_FALSE(released->valid());
    deadline = base::Now() + kTimeout;
    dropped.reset();
    punctuality.Note(deadline);
    deadline = base::Now() + kTimeout;
    const absl::StatusCode thrown = Thrown([&] { semaphore->release(); });
    EXPECT_TRUE(thrown == kOk || thrown == kUnreachable);
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitFree(*semaphore));  // by the background
  EXPECT_TRUE(Await([&] { return released->Release().ok(); }));
  EXPECT_EQ(Thrown([&] { semaphore->release(); }), kMisuse);
}

INSTANTIATE_FOR_SEMAPHORE_OVER_TCP(SemaphoreUnreachable);

}  // namespace
}  // namespace redlatch::conformance
