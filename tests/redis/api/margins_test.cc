// LockOptions::stop_margin, grace and at_most; AcquireOptions::at_least and Lease::StayTaken().
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

struct Margins : ::testing::Test {
  static void ExpectInvalid(const absl::Status& status, const std::string& why) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  }
  static absl::StatusOr<Lease> AcquiredAsync(RedisLockBase& lock, const AcquireOptions& how) {
    std::promise<absl::StatusOr<Lease>> told;
    lock.AcquireAsync(how, [&](absl::StatusOr<Lease> lease) { told.set_value(std::move(lease)); });
    return told.get_future().get();
  }
  int64_t Pttl() { return server_->Integer({"PTTL", "lock"}); }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const Client client_ = Connect(server_->url());
  const Client other_ = Connect(server_->url());
};

TEST_F(Margins, ImpossibleOptionsAreRefused) {
  const auto refused = [&](const LockOptions& options, const std::string& why,
                           const AcquireOptions& how = {}) {
    SimpleLock lock(client_, "lock", options);
    ExpectInvalid(lock.Acquire(how).status(), why);
    ExpectInvalid(AcquiredAsync(lock, how).status(), why);
  };
  refused({.stop_margin = absl::Seconds(16)}, "more than half the lease of 30s");
  refused({.stop_margin = absl::InfiniteDuration()}, "more than half the lease");
  refused({.stop_margin = absl::Seconds(2)}, "more than half the lease of 3s",
          {.lease = absl::Seconds(3)});
  refused({.stop_margin = absl::Seconds(-1)}, "must not be negative");
  refused({.grace = absl::Seconds(-1)}, "must not be negative");
  refused({.cache_for = absl::Seconds(-1)}, "must not be negative");
  refused({.turn = absl::Seconds(-1)}, "must not be negative");
  refused({.lease = absl::Seconds(3), .cache_for = absl::Seconds(4)},
          "LockOptions::cache_for is 4s, longer than the lease of 3s");
  refused({.grace = absl::InfiniteDuration()}, "LockOptions::grace is inf");
  refused({.grace = absl::Hours(24 * 365)}, "LockOptions::grace is 8760h");
  refused({.lease = absl::InfiniteDuration(), .grace = absl::Seconds(1)}, "a lease of inf");
  refused({.lease = absl::Seconds(-1)}, "a lease of -1s is not possible");
  refused({.at_most = absl::Seconds(29)}, "longer than the 29s of LockOptions::at_most");
  refused({.at_most = absl::Minutes(1)}, "a lease of 2m is longer", {.lease = absl::Minutes(2)});
  refused({}, "cannot stay taken for -1s", {.at_least = absl::Seconds(-1)});
  refused({}, "cannot stay taken for ever;", {.at_least = absl::InfiniteDuration()});
  refused({}, "a lease of 0 is not possible", {.lease = absl::ZeroDuration()});
  EXPECT_TRUE(server_->LockKeys().empty());
}

TEST_F(Margins, OnlyLocksOfOneNameStayTaken) {
  const AcquireOptions stays{.at_least = absl::Seconds(1)};
  const std::string why = "only a SimpleLock, a ReentrantLock or the write side";
  ExpectInvalid(Semaphore(client_, "semaphore", 1).Acquire(1, stays).status(), why);
  ReentrantReadWriteLock read_write(client_, "read_write");
  ExpectInvalid(read_write.AcquireRead(stays).status(), why);
  ReentrantLock reentrant(client_, "reentrant");
  ExpectInvalid(reentrant.AcquireAs(Owner("job"), stays).status(), why);
  Election election(client_, "election");
  ExpectInvalid(election.Campaign("me", stays).status(), why);
  ExpectInvalid(election.Campaign()->StayTaken(absl::Seconds(1)), why);
  MultiLock together(client_, {"{m}1", "{m}2"});
  ExpectInvalid(together.Acquire(stays).status(), why);
  MultiLock apart({&reentrant, &read_write});
  ExpectInvalid(apart.Acquire(stays).status(), why);
  auto lease = Must(apart.Acquire());
  ExpectInvalid(lease.StayTaken(absl::Seconds(1)), why);
  EXPECT_EQ(Lease().StayTaken(absl::Seconds(1)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(Margins, HoldIsLostBeforeServerFreesIt) {
  const auto lease =
      Must(SimpleLock(client_, "lock", {.lease = absl::Seconds(6), .stop_margin = absl::Seconds(3)})
               .Acquire());
  EXPECT_LT(lease.remaining(), absl::Seconds(3));
  EXPECT_GT(Pttl(), 3000);
  const base::Instant taken = base::Now();
  while (base::Now() < taken + absl::Seconds(4)) {
    ASSERT_TRUE(lease.valid()) << "renewals have room";
    Sleep(absl::Milliseconds(50));
  }
  server_->Stop();
  EXPECT_TRUE(Await([&] { return lease.lost().stop_requested(); }));
  server_->Continue();
  EXPECT_GT(Pttl(), 500) << "what is left of the margin on a busy machine";
}

TEST_F(Margins, ServerWaitsForGraceAfterExpiry) {
  auto lease =
      Must(SimpleLock(client_, "lock", {.lease = absl::Seconds(1), .grace = absl::Seconds(2)})
               .Acquire({.lease = absl::Seconds(1)}));
  EXPECT_LT(lease.remaining(), absl::Seconds(1));
  EXPECT_GT(Pttl(), 2000);
  const auto after = Must(SimpleLock(other_, "lock").Acquire({.wait = absl::Seconds(20)}));
  EXPECT_FALSE(lease.valid());
  EXPECT_GE(after.fencing_token().value() - lease.fencing_token().value(), 2'900'000U);
}

TEST_F(Margins, HoldEndsAfterAtMost) {
  std::promise<LostLease> lost;
  SimpleLock lock(client_, "lock",
                  {.lease = absl::Seconds(2),
                   .at_most = absl::Seconds(3),
                   .on_lost = [&](const LostLease& its) { lost.set_value(its); }});
  lock.lock();
  ASSERT_TRUE(SimpleLock(other_, "lock").Acquire({.wait = absl::Seconds(20)}).ok());
  EXPECT_THAT(lost.get_future().get().reason, HasSubstr("LockOptions::at_most"));
  EXPECT_FALSE(lock.current().valid());
  lock.unlock();
}

// A lock of each kind that can stay taken.
struct LockThatStaysTaken : Margins, ::testing::WithParamInterface<int> {
  static std::unique_ptr<RedisLockBase> Make(const Client& client,
                                             const LockOptions& options = {}) {
    if (GetParam() == 0) return std::make_unique<SimpleLock>(client, "lock", options);
    if (GetParam() == 1) return std::make_unique<ReentrantLock>(client, "lock", options);
    return std::make_unique<ReentrantReadWriteLock>(client, "lock", options);
  }
  // How much later the server granted the second lease.
  static absl::Duration Between(const Lease& first, const Lease& second) {
    return absl::Microseconds(second.fencing_token().value() - first.fencing_token().value());
  }

  const std::unique_ptr<RedisLockBase> lock_ = Make(client_);
  const std::unique_ptr<RedisLockBase> next_ = Make(other_);
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockThatStaysTaken, ::testing::Range(0, 3));

TEST_P(LockThatStaysTaken, StaysTakenAfterRelease) {
  constexpr absl::Duration kLeast = absl::Milliseconds(1500);
  auto lease = Must(lock_->Acquire({.at_least = kLeast}));
  EXPECT_GT(Pttl(), 20'000) << "the lease is longer";
  absl::StatusOr<Lease> after;
  std::thread waiter([&] { after = next_->Acquire({.wait = absl::Seconds(20)}); });
  EXPECT_TRUE(Await([&] { return lock_->Inspect()->waiting == 1; }));
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_FALSE(lease.valid());
  EXPECT_LE(Pttl(), 1501);
  EXPECT_TRUE(IsBusy(lock_->TryAcquire().status())) << "the same client and thread";
  waiter.join();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_GE(Between(lease, *after), kLeast);
  // The waiter's first heartbeat would have come after ten seconds.
  EXPECT_LT(Between(lease, *after), kLeast + absl::Seconds(5));
}

TEST_P(LockThatStaysTaken, ThreadOfTheSameClientWaits) {
  constexpr absl::Duration kLeast = absl::Seconds(1);
  const absl::StatusOr<Lease> lease = [&] {
    auto first = Must(lock_->Acquire({.at_least = kLeast}));
    EXPECT_TRUE(first.Release().ok());
    return first;
  }();
  const auto after = Must(lock_->Acquire({.wait = absl::Seconds(20)}));
  EXPECT_GE(Between(*lease, after), kLeast);
}

TEST_P(LockThatStaysTaken, StaysTakenIfItsProcessIsKilled) {
  const auto short_lease = Make(client_, {.lease = absl::Milliseconds(300)});
  const auto lease = Must(short_lease->Acquire({.at_least = absl::Minutes(1)}));
  EXPECT_GT(Pttl(), 50'000) << "as it would stay without this process";
}

TEST_P(LockThatStaysTaken, StayTakenCountsFromTheToken) {
  auto lease = Must(lock_->Acquire({.lease = absl::Seconds(3)}));
  ASSERT_TRUE(lease.StayTaken(absl::Microseconds(1)).ok()) << "shorter than any lease";
  ASSERT_TRUE(lease.StayTaken(absl::Minutes(1)).ok());
  EXPECT_GT(Pttl(), 50'000);
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_GT(Pttl(), 50'000);
  EXPECT_LE(Pttl(), 60'001);
  EXPECT_EQ(lease.StayTaken(absl::Minutes(1)).code(), absl::StatusCode::kAborted);
}

TEST_P(LockThatStaysTaken, StaysTakenAfterAsynchronousRelease) {
  auto lease = Must(AcquiredAsync(*lock_, {.at_least = absl::Minutes(1)}));
  std::promise<absl::Status> released;
  lease.ReleaseAsync([&](absl::Status status) { released.set_value(std::move(status)); });
  EXPECT_TRUE(released.get_future().get().ok());
  EXPECT_GT(Pttl(), 50'000);
}

// A client repeats its latest releases over a new connection.
TEST_P(LockThatStaysTaken, StaysTakenAfterRepeatedRelease) {
  ASSERT_TRUE(lock_->Acquire({.at_least = absl::Minutes(1)})->Release().ok());
  server_->KillClients();
  EXPECT_TRUE(IsBusy(lock_->TryAcquire().status()));
  EXPECT_TRUE(IsBusy(next_->TryAcquire().status()));
  EXPECT_GT(Pttl(), 50'000);
}

}  // namespace
}  // namespace redlatch
