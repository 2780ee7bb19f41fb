// Names and keys: what a semaphore may be called, and what it does with keys that are not its own.
// What it has in common with locks: ../naming_test.cc.
#include "absl/strings/escaping.h"
#include "redlatch/owner.h"
#include "tests/conformance/api/names.h"
#include "tests/conformance/api/semaphore/fixture.h"

namespace redlatch::conformance {
namespace {

class SemaphoreNaming : public SemaphoreOfThree {
 protected:
  // All that reads or writes says so, and writes nothing.
  static void ExpectMisuse(Semaphore& semaphore) {
    EXPECT_EQ(CodeOf(Try(semaphore)), kMisuse);
    EXPECT_EQ(CodeOf(Try(semaphore, 2)), kMisuse);
    EXPECT_EQ(CodeOf(semaphore.Acquire(1, {.wait = absl::Milliseconds(50)})), kMisuse);
    EXPECT_EQ(CodeOf(semaphore.Acquire()), kMisuse);
    EXPECT_EQ(Thrown([&] { semaphore.acquire(); }), kMisuse);
    EXPECT_EQ(CodeOf(semaphore.SetCapacity(5)), kMisuse);
    EXPECT_EQ(CodeOf(semaphore.capacity()), kMisuse);
    EXPECT_EQ(CodeOf(semaphore.available()), kMisuse);
    EXPECT_EQ(CodeOf(semaphore.holders()), kMisuse);
    EXPECT_EQ(CodeOf(semaphore.Inspect()), kMisuse);
    EXPECT_EQ(CodeOf(semaphore.ForceRelease()), kMisuse);
  }
};

TEST_P(SemaphoreNaming, RefusesTheOthersAtFirstUseAndTouchesNothing) {
  for (const std::string& name : BadNames(GetParam().deployment.key_prefix)) {
    SCOPED_TRACE(absl::CHexEscape(name.substr(0, 40)));
    const auto semaphore = NewSemaphore(client_, kCapacity, name);
    EXPECT_EQ(CodeOf(semaphore->TryAcquire()), kBadInput);
    EXPECT_EQ(CodeOf(semaphore->Acquire()), kBadInput);
    EXPECT_EQ(CodeOf(semaphore->SetCapacity(5)), kBadInput);
    EXPECT_EQ(CodeOf(semaphore->capacity()), kBadInput);
    EXPECT_EQ(CodeOf(semaphore->Inspect()), kBadInput);
    EXPECT_EQ(CodeOf(semaphore->ForceRelease()), kBadInput);
    EXPECT_NE(Thrown([&] { semaphore->release(); }), kOk);
  }
  EXPECT_EQ(server().LockKeys().size(), 0);
}

TEST_P(SemaphoreNaming, OfALockOfAnotherClassIsMisuseAndTheLockIsUnharmed) {
  for (const Kind& kind : Kinds()) {
    SCOPED_TRACE(kind.name);
    const Client client = NewClient();
    for (const Client& locker : {client, other_}) {
      const auto lock = kind.make(locker, kName, Options());
      auto lease = Conformance::Try(*lock);
      ASSERT_OK(lease);
      // It keeps the name for its class on its client for as long as it is there.
      ExpectMisuse(*NewSemaphore(client));
      EXPECT_TRUE(lease->valid());
      EXPECT_EQ(CodeOf(Conformance::Try(*kind.make(third_, kName, Options()))), kBusy);
      EXPECT_OK(lease->Release());
    }
  }
  EXPECT_TRUE(SoonGetsIn(*NewSemaphore(NewClient())));
}

TEST_P(SemaphoreNaming, IsRefusedToLocksOfOtherClasses) {
  const auto permit = Try(*semaphore_, 2);
  ASSERT_OK(permit);
  for (const Kind& kind : Kinds()) {
    SCOPED_TRACE(kind.name);
    for (const Client& client : {client_, other_}) {
      const auto lock = kind.make(client, kName, Options());
      EXPECT_EQ(CodeOf(Conformance::Try(*lock)), kMisuse);
      EXPECT_EQ(CodeOf(lock->Acquire({.wait = kSoon})), kMisuse);
      EXPECT_EQ(CodeOf(lock->Inspect()), kMisuse);
      EXPECT_EQ(CodeOf(lock->ForceRelease()), kMisuse);
    }
  }
  EXPECT_TRUE(permit->valid());
  EXPECT_EQ(Free(*thirds_, kCapacity - 2), kCapacity - 2);
}

TEST_P(SemaphoreNaming, InspectTellsWhoHoldsAndWhoWaits) {
  auto two = Try(*semaphore_, 2);
  auto one = Try(*theirs_);
  Crew waiting;
  waiting.Start([&] { (void)thirds_->Acquire(3, {.wait = kLease}); });
  ASSERT_TRUE(AwaitQueued(1));
  waiting.Start([&] { (void)semaphore_->Acquire(1, {.wait = kLease}); });
  ASSERT_TRUE(AwaitQueued(2));
  const auto info = thirds_->Inspect();
  ASSERT_OK(info);
  EXPECT_EQ(info->kind, "semaphore");
  EXPECT_EQ(info->capacity, kCapacity);
  EXPECT_EQ(info->last_token, FencingToken());
  EXPECT_EQ(info->waiting, 2);
  ASSERT_EQ(info->holders.size(), 2);
  EXPECT_EQ(info->holding, 2);
  ASSERT_EQ(info->waiters.size(), 2);
  EXPECT_EQ(info->waiters[0].permits, 3);
  EXPECT_EQ(info->waiters[1].permits, 1);
  const bool first = info->holders[0].permits == 2;
  const LockInfo::Party& couple = info->holders[first ? 0 : 1];
  const LockInfo::Party& single = info->holders[first ? 1 : 0];
  EXPECT_EQ(couple.permits, 2);
  EXPECT_EQ(single.permits, 1);
  EXPECT_EQ(couple.owner, info->waiters[1].owner) << "of one client";
  EXPECT_NE(couple.owner, single.owner);
  EXPECT_NE(couple.owner, info->waiters[0].owner);
  for (const LockInfo::Party& holder : info->holders) {
    EXPECT_TRUE(holder.hold.starts_with(holder.owner + ":"));
    EXPECT_GT(holder.remaining, absl::ZeroDuration());
    EXPECT_LE(holder.remaining, kLease);
    EXPECT_EQ(holder.process.pid, getpid());
    EXPECT_EQ(holder.since, absl::InfinitePast()) << "nobody wrote it down";
  }
  for (const LockInfo::Party& waiter : info->waiters) {
    EXPECT_EQ(waiter.remaining, absl::ZeroDuration());
    EXPECT_EQ(waiter.process.pid, getpid());
    EXPECT_NE(waiter.since, absl::InfinitePast());
  }
  EXPECT_OK(two->Release());
  EXPECT_OK(one->Release());
}

INSTANTIATE_CONFORMANCE(SemaphoreNaming, WithoutSmoke(CasesOf("semaphore")));

// How many permits there are: who says so, who is refused for it, and what changing it does to
// those who hold and those who wait.

class SemaphoreCapacity : public SemaphoreOfThree {
 protected:
  void ExpectCapacity(int64_t capacity) {
    const absl::StatusOr<int64_t> stored = semaphore_->capacity();
    ASSERT_OK(stored);
    EXPECT_EQ(*stored, capacity);
  }
  // At each use, naming both.
  static void ExpectRefused(Semaphore& semaphore, int64_t own, int64_t stored) {
    std::vector<absl::Status> refusals = {Try(semaphore).status(),
                                          semaphore.Acquire(1, {.wait = kPatience}).status(),
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

TEST_P(SemaphoreCapacity, IsTheFirstConstructorsAndAnotherIsRefused) {
  ExpectCapacity(kCapacity);  // though nobody has stored it yet
  EXPECT_EQ(Free(*semaphore_, kCapacity), kCapacity);
  EXPECT_EQ(server().LockKeys().size(), 0);
  auto permit = Try(*semaphore_);
  ASSERT_OK(permit);
  ExpectCapacity(kCapacity);
  for (const int64_t other : {int64_t{41}, int64_t{1}}) {
    ExpectRefused(*NewSemaphore(other_, other), other, kCapacity);
    ExpectRefused(*NewSemaphore(client_, other), other, kCapacity);
  }
  ExpectCapacity(kCapacity);
  EXPECT_EQ(Queued(), 0);
  EXPECT_TRUE(permit->valid());
  EXPECT_TRUE(SoonGetsIn(*theirs_, kCapacity - 1));
}

TEST_P(SemaphoreCapacity, MayBeSetBeforeAnybodyUsesIt) {
  EXPECT_OK(semaphore_->SetCapacity(2));
  ExpectCapacity(2);
  EXPECT_TRUE(SoonGetsIn(*theirs_, 2));
  EXPECT_EQ(CodeOf(Try(*theirs_, 3)), kMisuse);
}

TEST_P(SemaphoreCapacity, OfLessThanOneIsRefused) {
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

TEST_P(SemaphoreCapacity, IsTheMostThatAnybodyMayAskFor) {
  for (const absl::Duration wait :
       {absl::ZeroDuration(), absl::Milliseconds(50), absl::InfiniteDuration()}) {
    EXPECT_EQ(CodeOf(semaphore_->Acquire(kCapacity + 1, {.wait = wait})), kMisuse);
    EXPECT_EQ(CodeOf(theirs_->Acquire(1'000'000'000, {.wait = wait})), kMisuse);
    for (const int64_t bad :
         {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(), int64_t{1'000'000'001},
          (int64_t{1} << 32) + 1, std::numeric_limits<int64_t>::max()}) {
      EXPECT_EQ(CodeOf(semaphore_->Acquire(bad, {.wait = wait})), kBadInput) << bad;
    }
    EXPECT_EQ(CodeOf(semaphore_->Acquire(1, {.wait = wait, .owner = Owner("job")})), kBadInput);
  }
  EXPECT_EQ(Queued(), 0);
  EXPECT_TRUE(SoonGetsIn(*semaphore_, kCapacity));
}

INSTANTIATE_CONFORMANCE(SemaphoreCapacity, WithoutSmoke(CasesOf("semaphore")));

}  // namespace
}  // namespace redlatch::conformance
