// The asynchronous face of every class of locks.

#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {
namespace {

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

INSTANTIATE_CONFORMANCE(Async, WithoutSmoke(LockCases()));

}  // namespace
}  // namespace redlatch::conformance
