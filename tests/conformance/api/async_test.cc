// The asynchronous face of every class of locks.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/conformance.h"
#include "tests/support/outcomes.h"

namespace redlatch::conformance {
namespace {

using Leases = support::Outcomes<absl::StatusOr<Lease>>;
using Statuses = support::Outcomes<absl::Status>;

class Async : public Conformance {
 protected:
  bool AwaitWaiting(const Client& client, uint64_t count) {
    return Await([&] { return client.Stats().all.waiting == count; });
  }

  const Client client_ = NewClient();
  const Client other_ = NewClient();
  Leases leases_;
  Statuses statuses_;
};

TEST_P(Async, AcquiresWhatIsFreeAndReleasesIt) {
  const auto lock = NewLock(client_);
  lock->AcquireAsync({}, leases_.Callback());
  absl::StatusOr<Lease> lease = leases_.Take();
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(CodeOf(Try(other_)), kBusy);
  lease->ReleaseAsync(statuses_.Callback());
  EXPECT_OK(statuses_.Take());
  EXPECT_TRUE(Try(other_).ok());
}

TEST_P(Async, WaitsForAnotherClientAndForItsOwn) {
  const auto theirs = NewLock(other_);
  const auto lock = NewLock(client_);
  std::optional<Lease> first = *theirs->Acquire();
  lock->AcquireAsync({}, leases_.Callback());
  lock->AcquireAsync({}, leases_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 2));
  EXPECT_EQ(leases_.size(), 0U);
  first.reset();
  absl::StatusOr<Lease> second = leases_.Take(0);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(leases_.size(), 1U);
  EXPECT_OK(second->Release());
  EXPECT_TRUE(leases_.Take(1).ok());
}

// Also of a reentrant lock.
TEST_P(Async, EachAcquisitionIsAnOwnerOfItsOwn) {
  const auto lock = NewLock(client_);
  lock->AcquireAsync({}, leases_.Callback());
  absl::StatusOr<Lease> lease = leases_.Take(0);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lock->hold_count(), 0);
  lock->AcquireAsync({.wait = absl::ZeroDuration()}, leases_.Callback());
  EXPECT_EQ(CodeOf(leases_.Take(1)), kBusy);
}

TEST_P(Async, OwnerComesAgainWhereTheLockIsReentrant) {
  const auto lock = NewLock(client_);
  lock->AcquireAsync({.owner = Owner("job")}, leases_.Callback());
  absl::StatusOr<Lease> outer = leases_.Take(0);
  if (!GetParam().kind.reentrant) {
    EXPECT_EQ(outer.status().code(), absl::StatusCode::kInvalidArgument);
    return;
  }
  ASSERT_TRUE(outer.ok()) << outer.status();
  lock->AcquireAsync({.owner = Owner("job")}, leases_.Callback());
  absl::StatusOr<Lease> inner = leases_.Take(1);
  ASSERT_TRUE(inner.ok()) << inner.status();
  EXPECT_EQ(inner->fencing_token(), outer->fencing_token());
  inner->ReleaseAsync(statuses_.Callback());
  EXPECT_OK(statuses_.Take(0));
  EXPECT_EQ(CodeOf(Try(other_)), kBusy);
  outer->ReleaseAsync(statuses_.Callback());
  EXPECT_OK(statuses_.Take(1));
  EXPECT_TRUE(Try(other_).ok());
}

TEST_P(Async, EndsWithItsWaitItsTokenOrItsLock) {
  const auto theirs = NewLock(other_);
  auto lock = NewLock(client_);
  const Lease first = *theirs->Acquire();
  lock->AcquireAsync({.wait = absl::Milliseconds(100)}, leases_.Callback());
  EXPECT_EQ(CodeOf(leases_.Take(0)), kBusy);
  std::stop_source stop;
  lock->AcquireAsync({.stop = stop.get_token()}, leases_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 1));
  stop.request_stop();
  EXPECT_EQ(leases_.Take(1).status().code(), absl::StatusCode::kCancelled);
  lock->AcquireAsync({}, leases_.Callback());
  ASSERT_TRUE(AwaitWaiting(client_, 1));
  lock.reset();
  EXPECT_EQ(leases_.Take(2).status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(Async, LeaseOutlivesLockAndClientAndIsRenewed) {
  std::optional<Lease> lease;
  {
    const Client client = NewClient();
    const auto lock = NewLock(client, kName, LeaseOf(absl::Milliseconds(200)));
    lock->AcquireAsync({}, leases_.Callback());
    lease = leases_.Take().value();
  }
  const base::Instant began = base::Now();
  EXPECT_TRUE(Await([&] { return base::Now() - began > absl::Milliseconds(500); }));
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(CodeOf(Try(other_)), kBusy);
  lease.reset();
  EXPECT_TRUE(Await([&] { return CodeOf(Try(other_)) != kBusy; }));
}

TEST_P(Async, ManyInFlightExcludeEachOtherAndThreads) {
  constexpr int kEach = 50;
  const auto mine = NewLock(client_);
  const auto theirs = NewLock(other_);
  std::atomic<int> holders{0};
  std::atomic<int> done{0};
  const auto run = [&](RedisLockBase& lock) {
    for (int i = 0; i < kEach; ++i) {
      lock.AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
        EXPECT_TRUE(lease.ok()) << lease.status();
        EXPECT_EQ(++holders, 1);
        --holders;
        lease = Lease();
        ++done;
      });
    }
  };
  run(*mine);
  run(*theirs);
  for (int i = 0; i < kEach; ++i) {
    const Lease lease = *mine->Acquire();
    EXPECT_EQ(++holders, 1);
    --holders;
  }
  EXPECT_TRUE(Await([&] { return done == 2 * kEach; }, absl::Seconds(30)));
}

INSTANTIATE_CONFORMANCE(Async);

}  // namespace
}  // namespace redlatch::conformance
