// Waiting: how long, in what order it ends, and what stops it.
#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/outage.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

// Of whatever excludes others.
class Waiting : public Conformance {
 protected:
  // A lock that somebody else has, for as long as this test.
  void Occupy() {
    lease_.emplace(*NewAny(owner_)->Acquire());
    ASSERT_TRUE(lease_->valid());
  }
  // A call that may take so long takes it; the simulator sees that it does not take much more.
  template <class Call>
  static void ExpectTakes(absl::Duration wait, const Call& call) {
    const base::Instant deadline = base::Now() + wait;
    call();
    EXPECT_GE(base::Now(), deadline);
  }

  const Client owner_ = NewClient();
  const Client client_ = NewClient();
  const std::unique_ptr<support::AnyLock> lock_ = NewAny(client_);
  std::optional<support::AnyHold> lease_;
};

INSTANTIATE_CONFORMANCE(Waiting, WithoutSmoke(ExclusiveCases()));

TEST_P(Waiting, EndsWhenItsTimeIsUpAndNotBefore) {
  Occupy();
  Crew crew;
  for (const int wait_ms : {1, 20, 55, 90, 130}) {
    crew.Start([&, wait_ms] {
      ExpectTakes(absl::Milliseconds(wait_ms), [&] {
        EXPECT_EQ(CodeOf(lock_->Acquire({.wait = absl::Milliseconds(wait_ms)})), kBusy);
      });
      ExpectTakes(absl::Milliseconds(wait_ms),
                  [&] { EXPECT_FALSE(lock_->try_lock_for(std::chrono::milliseconds(wait_ms))); });
    });
  }
  crew.Join();
  EXPECT_TRUE(AwaitQueued(0));
  EXPECT_TRUE(lease_->valid());
}

TEST_P(Waiting, IsStoppedByItsStopToken) {
  Occupy();
  std::stop_source stop;
  base::Instant ended;
  Crew crew;
  crew.Start([&] {
    EXPECT_EQ(CodeOf(lock_->Acquire({.stop = stop.get_token()})), kCancelled);
    ended = base::Now();
  });
  ASSERT_TRUE(AwaitQueued(1));
  Punctuality punctuality;
  const base::Instant stopped = base::Now();
  stop.request_stop();
  crew.Join();
  punctuality.Note(stopped);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(Waiting, StoppedAfterItsEndDoesNotTouchTheHold) {
  std::stop_source stop;
  auto lease = lock_->Acquire({.stop = stop.get_token()});
  ASSERT_OK(lease);
  stop.request_stop();
  EXPECT_TRUE(lease->valid());
  EXPECT_FALSE(lease->lost().stop_requested());
  EXPECT_EQ(CodeOf(Try(*NewAny(owner_))), kBusy);
  EXPECT_OK(lease->Release());
}

// A server that hangs, is down or is not there yet: who says so, when, and that it is never taken
// for a lock that is busy.

using redis::Punctuality;

class UnreachableServer : public WithOutages<Conformance> {
 protected:
  // A client that has used the lock already.
  Client NewWarmClient(ClientOptions options = {}) {
    Client client = NewClient(std::move(options));
    EXPECT_OK(Try(*NewAny(client)));
    return client;
  }
  // What is given up without an answer leaves a tombstone, for as long as its lease.
  std::unique_ptr<support::AnyLock> NewShort(const Client& client, std::string_view name = kName) {
    return NewAny(client, name, LeaseOf(kLease / 5));
  }
  static void ExpectNotBusyInTime(support::AnyLock& lock) {
    const auto waits = [&](int wait_ms) {
      return CodeOf(lock.Acquire({.wait = absl::Milliseconds(wait_ms)}));
    };
    const auto tries = [&](int wait_ms) {
      return Thrown([&] { (void)lock.try_lock_for(std::chrono::milliseconds(wait_ms)); });
    };
    ExpectUnreachable({{kTimeout, [&] { return CodeOf(lock.TryAcquire()); }},
                       {kTimeout, [&] { return Thrown([&] { (void)lock.try_lock(); }); }},
                       {absl::Milliseconds(1), [&] { return waits(1); }},
                       {absl::Milliseconds(1), [&] { return tries(1); }},
                       {absl::Milliseconds(80), [&] { return waits(80); }},
                       {absl::Milliseconds(80), [&] { return tries(80); }}});
  }
};

// Of whatever excludes others.
class Unreachable : public UnreachableServer {};
INSTANTIATE_CONFORMANCE(Unreachable, OverTcp(ExclusiveCases()));

TEST_P(Unreachable, ServerIsNoBusyLock) {
  const Client client = NewWarmClient();
  const auto lock = NewShort(client);
  for (const How how : {How::kHangs, How::kIsDown}) {
    {
      const Outage outage(server(), how);
      ExpectNotBusyInTime(*lock);
      if (how == How::kIsDown) ExpectNotBusyInTime(*NewShort(client, "unused"));
    }
    EXPECT_TRUE(Await([&] { return lock->Acquire().ok(); }));  // attempts to connect are held back
  }
}

TEST_P(Unreachable, HangingServerIsNoBusyLockForTheFirstCallOfAClientEither) {
  const Client clients[] = {NewClient(), NewClient(), NewClient()};
  {
    const Outage outage(server(), How::kHangs);
    EXPECT_EQ(CodeOf(NewShort(clients[0])->TryAcquire()), kUnreachable);
    EXPECT_EQ(CodeOf(NewShort(clients[1])->Acquire({.wait = absl::Milliseconds(30)})),
              kUnreachable);
    ExpectNotBusyInTime(*NewShort(clients[2]));
  }
  for (const Client& client : clients) EXPECT_OK(NewShort(client)->Acquire());
}

TEST_P(Unreachable, DeadServerIsNamedWithWhatIsWrongAndWhatToLookFor) {
  const Client clients[] = {NewWarmClient(), NewClient(),
                            NewClient({.connect = ConnectPolicy::kLazy})};
  const Outage outage(server(), How::kIsDown);
  for (const Client& client : clients) {
    const auto lock = NewShort(client);
    (void)lock->TryAcquire();  // what it had sent over its lost connection has another fate
    const std::string message(lock->TryAcquire().status().message());
    EXPECT_THAT(message, AllOf(HasSubstr(kName), HasSubstr(server().url()),
                               HasSubstr("Connection refused"), HasSubstr("is it running")));
    try {
      ADD_FAILURE() << "try_lock() returned " << lock->try_lock();
    } catch (const std::system_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("Connection refused"));
    }
  }
}

TEST_P(Unreachable, ServerFailsCallsWithoutADeadlineAfterAWhile) {
  constexpr absl::Duration kGiveUp = absl::Milliseconds(200);
  const auto lock = NewShort(NewWarmClient({.unreachable_after = kGiveUp}));
  for (const How how : {How::kHangs, How::kIsDown}) {
    const Outage outage(server(), how);
    Punctuality punctuality;
    base::Instant give_up_at = base::Now() + kGiveUp;
    EXPECT_EQ(CodeOf(lock->Acquire()), kUnreachable);
    punctuality.Note(give_up_at);
    EXPECT_GE(base::Now(), give_up_at);
    give_up_at = base::Now() + kGiveUp;
    EXPECT_EQ(Thrown([&] { lock->lock(); }), kUnreachable);
    punctuality.Note(give_up_at);
    EXPECT_TRUE(punctuality.Within(kGrace));
  }
  EXPECT_TRUE(Await([&] { return lock->Acquire().ok(); }));  // attempts to connect are held back
}

TEST_P(Unreachable, ServerMayBeDownWhenAProgramStarts) {
  std::optional<Outage> outage(std::in_place, server(), How::kIsDown);
  const Client client = NewClient({.connect = ConnectPolicy::kLazy});
  const auto lock = NewShort(client);
  EXPECT_EQ(CodeOf(lock->TryAcquire()), kUnreachable);
  EXPECT_EQ(CodeOf(lock->Acquire({.wait = absl::Milliseconds(30)})), kUnreachable);
  Crew crew;
  crew.Start([&] { EXPECT_OK(lock->Acquire()); });
  outage.reset();
}

TEST_P(Unreachable, HangingServerDoesNotKeepACallFromBeingStopped) {
  const auto lock = NewShort(NewWarmClient());
  {
    const Outage outage(server(), How::kHangs);
    std::stop_source stop;
    Crew crew;
    crew.Start(
        2, [&](int) { EXPECT_EQ(CodeOf(lock->Acquire({.stop = stop.get_token()})), kCancelled); });
    Punctuality punctuality;
    const base::Instant deadline = base::Now() + kTimeout;  // for the call that was sent already
    stop.request_stop();
    crew.Join();
    punctuality.Note(deadline);
    EXPECT_TRUE(punctuality.Within(kGrace));
  }
  EXPECT_OK(lock->Acquire());
}

class UnreachableOfLocks : public UnreachableServer {};
INSTANTIATE_CONFORMANCE(UnreachableOfLocks, OverTcp(LockCases()));

TEST_P(UnreachableOfLocks, LockOfThisClientIsBusyThoughTheServerHangs) {
  const auto lock = NewLock(NewWarmClient());
  auto lease = lock->Acquire();
  ASSERT_OK(lease);
  {
    const Outage outage(server(), How::kHangs);
    Crew().Start([&] { EXPECT_EQ(CodeOf(lock->TryAcquire()), kBusy); });
    EXPECT_TRUE(lease->valid());
  }
  EXPECT_OK(lease->Release());
}

TEST_P(UnreachableOfLocks, HangingServerHoldsUpAllDestructorsAndUnlocksTogetherOnce) {
  const Client client = NewWarmClient();
  std::vector<std::unique_ptr<RedisLockBase>> locks;
  std::vector<Lease> leases;
  for (int i = 0; i < 5; ++i) {
    leases.push_back(*NewLock(client, absl::StrCat("leased", i))->Acquire());
    locks.push_back(NewLock(client, absl::StrCat("locked", i)));
    locks.back()->lock();
  }
  Punctuality punctuality;
  {
    const Outage outage(server(), How::kHangs);
    const base::Instant deadline = base::Now() + kTimeout;
    leases.clear();
    for (const auto& lock : locks) lock->unlock();
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(2 * kGrace));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(AwaitHeld(false, absl::StrCat("leased", i)));
    EXPECT_TRUE(AwaitHeld(false, absl::StrCat("locked", i)));
  }
  // What was silent is heard again: a release is confirmed before the call returns.
  EXPECT_OK(NewLock(client)->Acquire());
  EXPECT_FALSE(IsHeld());
}

}  // namespace
}  // namespace redlatch::conformance
