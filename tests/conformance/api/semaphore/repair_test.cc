// What goes wrong around a semaphore and is mended: a server that forgets its scripts or has no
// memory, connections that are killed, a queue that is gone, a process that forks.
#include <optional>

#include "gtest/gtest.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/subprocess.h"

namespace redlatch::conformance {
namespace {

class SemaphoreRepair : public SemaphoreOfThree {
 protected:
  // The server refuses all that needs memory, in this scope.
  class FullMemory {
   public:
    explicit FullMemory(Servers& server) : server_(server) {
      server_.Command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
      server_.Command({"CONFIG", "SET", "maxmemory", "1"});
    }
    ~FullMemory() { server_.Command({"CONFIG", "SET", "maxmemory", "0"}); }

   private:
    Servers& server_;
  };
};

TEST_P(SemaphoreRepair, AServerWithoutMemoryRefusesPermitsAndTakesThemBack) {
  auto two = Try(*semaphore_, 2);
  auto one = Try(*theirs_);
  ASSERT_OK(two);
  ASSERT_OK(one);
  Waiter first(*thirds_, 2, {.wait = 2 * kPatience});
  ASSERT_TRUE(AwaitQueued(1));
  Waiter second(*semaphore_, 1, {.wait = 2 * kPatience});
  ASSERT_TRUE(AwaitQueued(2));
  const FullMemory full(server());
  // Renewals and heartbeats pass.
  EXPECT_TRUE(heard_->Await("renewed", 2));
  EXPECT_TRUE(two->valid());
  EXPECT_EQ(Queued(), 2);
  EXPECT_OK(one->Release());
  EXPECT_EQ(Free(*thirds_, 1), 1);
  EXPECT_OK(two->Release());
  EXPECT_OK(first.status());
  EXPECT_OK(second.status());
  EXPECT_EQ(Free(*thirds_, 0), 0);
  EXPECT_OK(first.permit().Release());
  EXPECT_EQ(Free(*thirds_, 2), 2);
  for (const int64_t permits : {1, 2}) {
    const auto refused = theirs_->Acquire(permits, {.wait = absl::Milliseconds(50)});
    EXPECT_FALSE(refused.ok());
    EXPECT_NE(CodeOf(refused), kBusy) << "that is not why";
    EXPECT_FALSE(Try(*theirs_, permits).ok());
  }
  EXPECT_EQ(Queued(), 0);
  EXPECT_EQ(Free(*thirds_, 2), 2);
}

TEST_P(SemaphoreRepair, AForkedChildIsRefusedAndItsParentUnharmed) {
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

// A sanitizer's forked children must start no threads, as a client does.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_P(SemaphoreRepair, AForkedChildMayHaveAClientOfItsOwn) {
  const auto two = Try(*semaphore_, 2);
  ASSERT_OK(two);
  const auto child = support::Child::Fork([&](support::LinePipe&) {
    const auto mine = NewSemaphore(NewClient());
    const bool fits = Try(*mine).ok();
    return fits && CodeOf(Try(*mine, 2)) == kBusy ? 0 : 1;
  });
  EXPECT_EQ(child->Wait().code, 0);
  EXPECT_EQ(Free(*thirds_, 1), 1);
}
#endif

INSTANTIATE_FOR_SEMAPHORE(SemaphoreRepair);

}  // namespace
}  // namespace redlatch::conformance
