// Releasing, renewing, extending: what a Lease and unlock() do with a hold.
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

constexpr absl::Duration kReleaseLease = absl::Milliseconds(200);

struct ReleasingTest : WithOther {
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const Client client_ = NewClient({}, {.observer = recorder_});
};

// For locks and semaphores.
struct Releasing : ReleasingTest {
  const std::unique_ptr<support::AnyLock> lock_ = NewAny(client_);
};
INSTANTIATE_CONFORMANCE(Releasing, WithoutSmoke(ExclusiveCases()));

TEST_P(Releasing, RepeatedReleaseSucceedsAndReleasesOnce) {
  auto lease = Must(lock_->Acquire());
  EXPECT_TRUE(lease.valid());
  EXPECT_GT(lease.remaining(), kLease / 2);
  EXPECT_LT(lease.remaining(), kLease);
  EXPECT_OK(lease.Release());
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lease.remaining(), absl::ZeroDuration());
  EXPECT_TRUE(FreeForOthers());
  const auto theirs = Must(Try(*NewAny(other_)));
  EXPECT_OK(lease.Release());
  EXPECT_TRUE(theirs.valid());
  EXPECT_FALSE(lease.lost().stop_requested());
  EXPECT_EQ(recorder_->Count("released"), 1);
}

TEST_P(Releasing, ConcurrentCallsReleaseOnce) {
  auto lease = Must(lock_->Acquire());
  Crew crew;
  crew.Start(4, [&](int) { EXPECT_OK(lease.Release()); });
  crew.Join();
  EXPECT_EQ(recorder_->Count("released"), 1);
  EXPECT_TRUE(FreeForOthers());
}

TEST_P(Releasing, LeaseMayEndOnAnotherThread) {
  auto lease = std::make_unique<support::AnyHold>(*lock_->Acquire());
  Crew().Start([&] { lease.reset(); });
  EXPECT_TRUE(FreeForOthers());
}

class Renewing : public Releasing {};
INSTANTIATE_CONFORMANCE(Renewing, OverTcp(ExclusiveCases()));

TEST_P(Renewing, ExtendRequiresManualLease) {
  auto lease = Must(lock_->Acquire());
  EXPECT_EQ(CodeOf(lease.Extend(kLease)), kMisuse);
  EXPECT_TRUE(lease.valid());
}

TEST_P(Renewing, LeaseIsTenMillisecondsToOneYear) {
  for (const absl::Duration lease :
       {absl::ZeroDuration(), -kLease, absl::Milliseconds(9), absl::Hours(24 * 366),
        absl::Milliseconds(std::numeric_limits<int64_t>::max()), absl::InfiniteDuration()}) {
    EXPECT_EQ(CodeOf(lock_->Acquire({.lease = lease})), kBadInput) << lease;
    EXPECT_EQ(CodeOf(NewAny(client_, kName, LeaseOf(lease))->TryAcquire()), kBadInput) << lease;
  }
  EXPECT_EQ(server().LockKeys().size(), 0);
  EXPECT_OK(lock_->Acquire({.lease = absl::Milliseconds(10)}).status());
  EXPECT_TRUE(FreeForOthers());
}

// It also outlives the objects with which it was taken, and is renewed.
TEST_P(Renewing, LeaseOutlivesLockAndClient) {
  const auto recorder = std::make_shared<Recorder>();
  std::optional<support::AnyHold> lease =
      *NewAny(NewClient({}, {.observer = recorder}), kName, LeaseOf(absl::Seconds(1)))->Acquire();
  EXPECT_TRUE(recorder->Await("renewed", 4));
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(BusyForOthers());
  EXPECT_OK(lease->Release());
  EXPECT_TRUE(FreeForOthers());
  lease.reset();
  EXPECT_EQ(recorder->Count("lost"), 0);
}

TEST_P(Renewing, ExtendProlongsManualLease) {
  absl::StatusOr<support::AnyHold> lease;
  base::Instant would_end;
  ASSERT_TRUE(Await([&] {  // on a busy machine, the short lease may end first
    lease = lock_->Acquire({.lease = kReleaseLease});
    would_end = base::Now() + kReleaseLease;
    return lease.ok() && lease->Extend(kTestTimeout).ok();
  }));
  EXPECT_GT(lease->remaining(), kTestTimeout / 2);
  EXPECT_TRUE(Await([&] { return would_end < base::Now(); }));
  EXPECT_TRUE(BusyForOthers());
  EXPECT_OK(lease->Extend(kTestTimeout));
  EXPECT_EQ(CodeOf(lease->Extend(absl::Milliseconds(1))), kBadInput);
  EXPECT_EQ(CodeOf(lease->Extend(absl::InfiniteDuration())), kBadInput);
  EXPECT_TRUE(lease->valid());
  EXPECT_OK(lease->Release());
  EXPECT_EQ(CodeOf(lease->Extend(kLease)), kLost);
  EXPECT_TRUE(FreeForOthers());
}

struct LockReleasing : ReleasingTest {
  const std::unique_ptr<RedisLockBase> lock_ = NewLock(client_);
};
INSTANTIATE_CONFORMANCE(LockReleasing, WithoutSmoke(LockCases()));

TEST_P(LockReleasing, EmptyLeaseAndHoldAreInvalid) {
  Lease lease;
  EXPECT_FALSE(lease.valid());
  EXPECT_FALSE(lease.lost().stop_requested());
  EXPECT_EQ(lease.fencing_token(), FencingToken());
  EXPECT_OK(lease.Release());
  EXPECT_EQ(CodeOf(lease.Extend(kLease)), kMisuse);
  EXPECT_FALSE(Hold().valid());
  EXPECT_EQ(Hold().remaining(), absl::ZeroDuration());
}

TEST_P(LockReleasing, MoveTransfersAndAssignmentReleases) {
  auto first = *lock_->Acquire();
  const FencingToken token = first.fencing_token();
  Lease second(std::move(first));
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): it is empty
  EXPECT_OK(first.Release());   // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(second.valid());
  EXPECT_EQ(second.fencing_token(), token);
  EXPECT_TRUE(BusyForOthers());
  Lease& same = second;
  second = std::move(same);
  EXPECT_TRUE(second.valid());
  second = *NewLock(client_, "another")->Acquire();
  EXPECT_TRUE(FreeForOthers());
  EXPECT_EQ(CodeOf(Try(other_, "another")), kBusy);
}

TEST_P(LockReleasing, LeaseMayBeOneYear) {
  EXPECT_OK(lock_->Acquire({.lease = absl::Hours(24 * 365)}).status());
  EXPECT_TRUE(FreeForOthers());
}

TEST_P(LockReleasing, CurrentIsTheCallingThreadsHold) {
  EXPECT_FALSE(lock_->current().valid());
  EXPECT_EQ(lock_->hold_count(), 0);
  auto lease = std::make_unique<Lease>(*lock_->Acquire());
  EXPECT_TRUE(lock_->current().valid());
  EXPECT_EQ(lock_->current().fencing_token(), lease->fencing_token());
  EXPECT_EQ(lease->fencing_token() > FencingToken(), GetParam().kind.has_tokens());
  EXPECT_EQ(lock_->hold_count(), 1);
  Crew().Start([&] {
    EXPECT_FALSE(lock_->current().valid());
    EXPECT_EQ(lock_->hold_count(), 0);
    lease.reset();
  });
  EXPECT_EQ(lock_->hold_count(), 0);
}

TEST_P(LockReleasing, UnlockWithoutLockIsMisuse) {
  lock_->lock();
  Crew().Start([&] { lock_->unlock(); });
  EXPECT_TRUE(recorder_->Await("misuse"));
  NewLock(other_)->unlock();
  EXPECT_TRUE(lock_->current().valid());
  EXPECT_TRUE(BusyForOthers());
  lock_->unlock();
  EXPECT_EQ(recorder_->Count("misuse"), 1);
  lock_->unlock();
  EXPECT_TRUE(recorder_->Await("misuse", 2));
  NewLock(client_, "fresh")->unlock();
  EXPECT_TRUE(recorder_->Await("misuse", 3));
}

TEST_P(LockReleasing, UnlockOfLeasedLockIsMisuse) {
  const auto lease = Must(lock_->Acquire());
  lock_->unlock();
  EXPECT_TRUE(recorder_->Await("misuse"));
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(BusyForOthers());
}

TEST_P(LockReleasing, ObserverIsToldOfEachEvent) {
  const auto lease = Must(lock_->Acquire());
  EXPECT_EQ(CodeOf(NewLock(client_)->Acquire(
                {.wait = absl::Milliseconds(1), .lease = kReleaseLease})) == kBusy,
            !GetParam().kind.reentrant);
  EXPECT_EQ(recorder_->Count("wait ended"), GetParam().kind.reentrant ? 0 : 1);
  lock_->try_lock();
  EXPECT_TRUE(recorder_->Count("acquired") >= 1);
  EXPECT_EQ(recorder_->All("acquired")[0].token, lease.fencing_token());
  if (GetParam().kind.reentrant) lock_->unlock();
}

// A server that allows a user to take a lock, but not to release it.

struct ReleaseRefused : Conformance {
  ReleaseRefused() {
    UseOwnServer();
    Permit("+@all");
  }

  void Permit(const std::string& rule) {
    server().Command({"ACL", "SETUSER", "app", "on", ">x", "~*", "&*", rule});
  }
  // Refuses scripts by SHA-1 and by text, because the first release over a connection sends the
  // text; and the commands that release a native grant, where the server has one of them.
  void RefuseReleases() {
    for (const char* const rule : {"-evalsha", "-eval", "-delifeq", "-delex"}) Permit(rule);
  }
  Client NewAppClient(ClientOptions options = {}) {
    return ClientAt(server().UrlOfUser("app:x"), {}, std::move(options));
  }
  void ExpectCountedOnce(const Client& client) {
    const LockStats stats = StatsOf(client, Called());
    EXPECT_EQ(stats.acquired, 1);
    EXPECT_EQ(stats.released, 0);
    EXPECT_EQ(stats.releases_failed, 1);
    EXPECT_EQ(stats.releasing, 0);
  }
};

TEST_P(ReleaseRefused, IsReportedAndCountedOnce) {
  const auto recorder = std::make_shared<Recorder>();
  const Client client = NewAppClient({.observer = recorder});
  const auto lock = NewLock(client);
  lock->lock();
  const FencingToken token = lock->current().fencing_token();
  RefuseReleases();
  lock->unlock();
  EXPECT_TRUE(recorder->Await("release failed"));
  const Recorder::Event failed = recorder->All("release failed").at(0);
  EXPECT_EQ(failed.token, token);
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_GT(failed.remaining, kLease / 2);
  EXPECT_LE(failed.remaining, kLease);
  EXPECT_EQ(recorder->Count("release failed"), 1);
  ExpectCountedOnce(client);
}

TEST_P(ReleaseRefused, IsReportedOnStderrWithoutObserver) {
  const Client client = NewAppClient();
  const auto lock = NewLock(client);
  // The library writes at most one line per second, and the previous test may have caused one.
  support::Sleep(absl::Milliseconds(1100));
  const Stderr said;
  lock->lock();
  RefuseReleases();
  lock->unlock();
  EXPECT_TRUE(Await([&] {
    return said.text().find("the server refused to release it") != std::string::npos;
  })) << said.text();
  EXPECT_NE(said.text().find("eval"), std::string::npos) << said.text();
  ExpectCountedOnce(client);
}

INSTANTIATE_CONFORMANCE(ReleaseRefused, OverTcp(LockCases()));

}  // namespace
}  // namespace redlatch::conformance
