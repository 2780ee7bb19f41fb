// Waiting: how long, in which order it ends, and what stops it.
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

// For locks and semaphores.
struct Waiting : Conformance {
  // Another client holds the lock for the rest of the test.
  void Occupy() {
    lease_.emplace(*NewAny(owner_)->Acquire());
    ASSERT_TRUE(lease_->valid());
  }
  // A call with that timeout takes at least that long. The simulator checks that it does not take
  // much longer.
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

TEST_P(Waiting, EndsAtItsDeadline) {
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

TEST_P(Waiting, StopTokenCancels) {
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

TEST_P(Waiting, LateStopDoesNotTouchHold) {
  std::stop_source stop;
  auto lease = Must(lock_->Acquire({.stop = stop.get_token()}));
  stop.request_stop();
  EXPECT_TRUE(lease.valid());
  EXPECT_FALSE(lease.lost().stop_requested());
  EXPECT_EQ(CodeOf(Try(*NewAny(owner_))), kBusy);
  EXPECT_OK(lease.Release());
}

// A server hangs, is down, or has not started: which calls report it, when, and that they never
// report a busy lock.

struct UnreachableServer : WithOutages<Conformance> {
  // A client that has already used the lock.
  Client NewWarmClient(ClientOptions options = {}) {
    Client client = NewClient(std::move(options));
    EXPECT_OK(Try(*NewAny(client)));
    return client;
  }
  // A request that is abandoned without a reply leaves a tombstone for the length of its lease.
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

// For locks and semaphores.
class Unreachable : public UnreachableServer {};
INSTANTIATE_CONFORMANCE(Unreachable, OverTcp(ExclusiveCases()));

TEST_P(Unreachable, ServerIsNotReportedAsBusy) {
  const Client client = NewWarmClient();
  const auto lock = NewShort(client);
  for (const How how : {How::kHangs, How::kIsDown}) {
    {
      const Outage outage(server(), how);
      ExpectNotBusyInTime(*lock);
      if (how == How::kIsDown) ExpectNotBusyInTime(*NewShort(client, "unused"));
    }
    // the client connects again after a back-off
    EXPECT_TRUE(Await([&] { return lock->Acquire().ok(); }));
  }
}

TEST_P(Unreachable, HungServerIsNotReportedAsBusyAtFirstCall) {
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

TEST_P(Unreachable, ErrorNamesServerReasonAndFix) {
  const Client clients[] = {NewWarmClient(), NewClient(),
                            NewClient({.connect = ConnectPolicy::kLazy})};
  const Outage outage(server(), How::kIsDown);
  for (const Client& client : clients) {
    const auto lock = NewShort(client);
    // its request was sent over the lost connection, so it reports another reason
    (void)lock->TryAcquire();
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

TEST_P(Unreachable, EndlessCallFailsAfterUnreachableAfter) {
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
  // the client connects again after a back-off
  EXPECT_TRUE(Await([&] { return lock->Acquire().ok(); }));
}

TEST_P(Unreachable, ServerMayStartAfterProgram) {
  std::optional<Outage> outage(std::in_place, server(), How::kIsDown);
  const Client client = NewClient({.connect = ConnectPolicy::kLazy});
  const auto lock = NewShort(client);
  EXPECT_EQ(CodeOf(lock->TryAcquire()), kUnreachable);
  EXPECT_EQ(CodeOf(lock->Acquire({.wait = absl::Milliseconds(30)})), kUnreachable);
  Crew crew;
  crew.Start([&] { EXPECT_OK(lock->Acquire()); });
  outage.reset();
}

TEST_P(Unreachable, CallCanBeStoppedWhileServerHangs) {
  const auto lock = NewShort(NewWarmClient());
  {
    const Outage outage(server(), How::kHangs);
    std::stop_source stop;
    Crew crew;
    crew.Start(
        2, [&](int) { EXPECT_EQ(CodeOf(lock->Acquire({.stop = stop.get_token()})), kCancelled); });
    Punctuality punctuality;
    const base::Instant deadline = base::Now() + kTimeout;  // the call in flight may take this long
    stop.request_stop();
    crew.Join();
    punctuality.Note(deadline);
    EXPECT_TRUE(punctuality.Within(kGrace));
  }
  EXPECT_OK(lock->Acquire());
}

TEST_P(Unreachable, ReleaseFailsUntilServerConfirmsIt) {
  auto lease = Must(NewAny(NewWarmClient())->Acquire());
  {
    const Outage outage(server(), How::kHangs);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(CodeOf(lease.Release()), kUnreachable);
  }
  EXPECT_OK(lease.Release());
  EXPECT_FALSE(IsHeld());
}

class LockUnreachable : public UnreachableServer {};
INSTANTIATE_CONFORMANCE(LockUnreachable, OverTcp(LockCases()));

TEST_P(LockUnreachable, OwnLockIsBusyWhileServerHangs) {
  const auto lock = NewLock(NewWarmClient());
  auto lease = Must(lock->Acquire());
  {
    const Outage outage(server(), How::kHangs);
    Crew().Start([&] { EXPECT_EQ(CodeOf(lock->TryAcquire()), kBusy); });
    EXPECT_TRUE(lease.valid());
  }
  EXPECT_OK(lease.Release());
}

TEST_P(LockUnreachable, ReleasesWaitForOneTimeoutInAll) {
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
  // The server answers again, so a release is confirmed before the call returns.
  EXPECT_OK(NewLock(client)->Acquire());
  EXPECT_FALSE(IsHeld());
}

// The asynchronous interface of every class of locks.

struct Async : Conformance {
  bool AwaitWaiting(const Client& client, uint64_t count) {
    return Await([&] { return client.Stats().all.waiting == count; });
  }

  const Client client_ = NewClient();
  const Client other_ = NewClient();
  Leases leases_;
  Statuses statuses_;
};

TEST_P(Async, AcquiresAndReleasesFreeLock) {
  const auto lock = NewLock(client_);
  lock->AcquireAsync({}, leases_.Callback());
  auto lease = Must(leases_.Take(0));
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(CodeOf(Try(other_)), kBusy);
  // Each acquisition is its own owner, also of a reentrant lock.
  EXPECT_EQ(lock->hold_count(), 0);
  lock->AcquireAsync({.wait = absl::ZeroDuration()}, leases_.Callback());
  EXPECT_EQ(CodeOf(leases_.Take(1)), kBusy);
  lease.ReleaseAsync(statuses_.Callback());
  EXPECT_OK(statuses_.Take());
  EXPECT_TRUE(Try(other_).ok());
}

TEST_P(Async, OwnerReentersReentrantLock) {
  if (!GetParam().kind.reentrant) return;
  const auto lock = NewLock(client_);
  support::AcquireAsyncAs(*lock, Owner("job"), {}, leases_.Callback());
  auto outer = Must(leases_.Take(0));
  support::AcquireAsyncAs(*lock, Owner("job"), {}, leases_.Callback());
  auto inner = Must(leases_.Take(1));
  EXPECT_EQ(inner.fencing_token(), outer.fencing_token());
  inner.ReleaseAsync(statuses_.Callback());
  EXPECT_OK(statuses_.Take(0));
  EXPECT_EQ(CodeOf(Try(other_)), kBusy);
  outer.ReleaseAsync(statuses_.Callback());
  EXPECT_OK(statuses_.Take(1));
  EXPECT_TRUE(Try(other_).ok());
}

TEST_P(Async, TimeoutStopAndDestructionEndIt) {
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

// One holder at a time, among threads, clients and processes, through every interface of the lock.

class Exclusion : public Conformance {};

// On a busy machine the server may not answer in time.
bool TakesSoon(RedisLockBase& lock) {
  try {
    return lock.try_lock_for(std::chrono::milliseconds(20));
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("UNAVAILABLE"));
    return false;
  }
}

TEST_P(Exclusion, HoldsAcrossAllCalls) {
  const Client clients[] = {NewClient(), NewClient()};
  constexpr int kKinds = 4;
  const int rounds = support::Scaled(40);
  Protected shared(GetParam().kind.has_tokens());
  Crew crew;
  for (const Client& client : clients) {
    crew.Start(kKinds, [&](int interface) {
      const auto lock = NewLock(client);
      for (int i = 0; i < rounds; ++i) {
        if (interface == 0) {
          const std::scoped_lock guard(*lock);
          shared.Touch(lock->current());
        } else if (interface == 1) {
          const auto lease = Must(lock->Acquire());
          shared.Touch(lease.hold());
        } else if (interface == 2) {
          auto lease = Must(lock->Acquire({.lease = kLease}));
          shared.Touch(lease.hold());
          EXPECT_OK(lease.Release());
        } else {
          while (!TakesSoon(*lock)) continue;
          shared.Touch(lock->current());
          lock->unlock();
        }
      }
    });
  }
  crew.Join();
  EXPECT_EQ(shared.touches(), 2 * kKinds * rounds);
}

TEST_P(Exclusion, AnyObjectOfTheNameMayUnlock) {
  const Client client = NewClient();
  const auto one = NewLock(client);
  const auto same = NewLock(client);
  one->lock();
  Crew().Start([&] { EXPECT_FALSE(same->try_lock()); });
  EXPECT_EQ(same->hold_count(), 1);
  EXPECT_TRUE(same->current().valid());
  same->unlock();
  EXPECT_EQ(one->hold_count(), 0);
  EXPECT_OK(Try(NewClient()));
}

TEST_P(Exclusion, KeyPrefixSeparatesClients) {
  const auto lock = NewLock(NewClient());
  const auto lease = Must(lock->Acquire());
  EXPECT_EQ(lock->name(), Called());
  EXPECT_OK(Try(ClientAt(UrlOfAnyUser(), {}, {.key_prefix = "elsewhere:"})));
  const std::string key = Key();
  const Client client = NewClient({}, {.key_prefix = key.substr(0, 2)});
  // Under another prefix, a MultiLock's other names would differ.
  const auto same = GetParam().kind.name == "multi"
                        ? std::make_unique<SimpleLock>(client, key.substr(2), Options())
                        : NewLock(client, key.substr(2));
  EXPECT_EQ(CodeOf(Try(*same)), kBusy);
}

INSTANTIATE_CONFORMANCE(Exclusion, LockCases());

}  // namespace
}  // namespace redlatch::conformance
