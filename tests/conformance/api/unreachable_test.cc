// A server that hangs, is down or is not there yet: who says so, when, and that it is never taken
// for a lock that is busy.
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/status.h"
#include "src/base/parker.h"
#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/outage.h"
#include "tests/conformance/api/recorder.h"
#include "tests/support/punctuality.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
INSTANTIATE_FOR_ALL_THAT_EXCLUDE_OVER_TCP(Unreachable);

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

TEST_P(Unreachable, HangingServerIsNoBusyLockForSeveralThreads) {
  const Client client = NewWarmClient();
  const auto lock = NewShort(client);
  {
    const Outage outage(server(), How::kHangs);
    Crew crew;
    for (const int wait_ms : {20, 60, 100, 150}) {
      crew.Start([&, wait_ms] {
        EXPECT_EQ(CodeOf(lock->Acquire({.wait = absl::Milliseconds(wait_ms)})), kUnreachable);
      });
    }
    crew.Start(3, [&](int) { EXPECT_EQ(CodeOf(lock->TryAcquire()), kUnreachable); });
  }
  EXPECT_OK(lock->Acquire());
}

TEST_P(Unreachable, HangingServerDoesNotKeepATryFromBeingStopped) {
  const auto lock = NewShort(ClientAt(url(), "command_timeout=20s"));
  EXPECT_OK(lock->TryAcquire());
  const Outage outage(server(), How::kHangs);
  std::stop_source stop;
  Crew crew;
  crew.Start([&] {
    EXPECT_EQ(CodeOf(lock->Acquire({.wait = absl::ZeroDuration(), .stop = stop.get_token()})),
              kCancelled);
  });
  stop.request_stop();
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

TEST_P(Unreachable, ServerFailsCallsWithoutADeadlineNoLaterThanAnAttemptWouldTake) {
  constexpr absl::Duration kGiveUp = absl::Milliseconds(100);  // kTimeout is longer
  for (const How how : {How::kHangs, How::kIsDown}) {
    const Client clients[] = {NewWarmClient({.unreachable_after = kGiveUp}),
                              NewClient({.unreachable_after = kGiveUp})};
    const Outage outage(server(), how);
    for (const Client& client : clients) {
      const auto lock = NewShort(client);
      Punctuality punctuality;
      Crew crew;
      crew.Start(3, [&](int) {
        const base::Instant give_up_at = base::Now() + kGiveUp;
        EXPECT_EQ(CodeOf(lock->Acquire()), kUnreachable);
        punctuality.Note(give_up_at);
      });
      crew.Join();
      EXPECT_TRUE(punctuality.Within(kGrace));
    }
  }
}

TEST_P(Unreachable, ServerThatComesBackInTimeIsWaitedFor) {
  const auto lock = NewShort(NewWarmClient());
  for (const How how : {How::kHangs, How::kIsDown}) {
    std::optional<Outage> outage(std::in_place, server(), how);
    Crew crew;
    crew.Start(2, [&](int) { EXPECT_OK(lock->Acquire()); });
    crew.Start([&] { EXPECT_OK(lock->Acquire({.wait = kPatience})); });
    crew.Start([&] {
      lock->lock();
      lock->unlock();
    });
    EXPECT_EQ(CodeOf(lock->TryAcquire()), kUnreachable);
    outage.reset();
  }
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

TEST_P(Unreachable, HangingServerDoesNotKeepTheFirstCallOfAClientFromBeingStopped) {
  for (const int after_ms : {0, 10, 40}) {  // however far it has come by then
    const auto lock = NewShort(NewClient());
    const Outage outage(server(), How::kHangs);
    Punctuality punctuality;
    std::stop_source stop;
    Crew crew;
    crew.Start([&] { EXPECT_EQ(CodeOf(lock->Acquire({.stop = stop.get_token()})), kCancelled); });
    base::Parker().ParkUntil(base::Now() + absl::Milliseconds(after_ms));
    const base::Instant stopped = base::Now();
    stop.request_stop();
    crew.Join();
    punctuality.Note(stopped);
    EXPECT_TRUE(punctuality.Within(kGrace));
  }
}

class UnreachableOfLocks : public UnreachableServer {};
INSTANTIATE_FOR_KINDS(UnreachableOfLocks);

// std::lock() tries all but one of its locks.
TEST_P(UnreachableOfLocks, ServerThatComesBackInTimeFailsNobodyWhoLocksTwo) {
  const Client client = ClientAt(url(), "command_timeout=20s");
  const auto one = NewLock(client);
  const auto two = NewLock(client, "two");
  for (const How how : {How::kHangs, How::kIsDown}) {
    EXPECT_OK(one->Acquire());
    std::optional<Outage> outage(std::in_place, server(), how);
    Crew crew;
    crew.Start([&] { EXPECT_NO_THROW(const std::scoped_lock both(*one, *two)); });
    crew.Start([&] { EXPECT_OK(NewLock(client, "three")->TryAcquire()); });
    base::Parker().ParkUntil(base::Now() + absl::Milliseconds(300));
    outage.reset();
  }
}

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

TEST_P(UnreachableOfLocks, HangingServerDelaysAReleaseNoLongerThanTheCommandTimeout) {
  const Client client = NewWarmClient();
  const auto lock = NewLock(client);
  const auto other = NewLock(client, "other");
  auto lease = lock->Acquire();
  auto dropped = std::make_optional(*NewLock(client, "third")->Acquire());
  other->lock();
  Punctuality punctuality;
  {
    const Outage outage(server(), How::kHangs);
    base::Instant deadline = base::Now() + kTimeout;
    EXPECT_EQ(CodeOf(lease->Release()), kUnreachable);
    punctuality.Note(deadline);
    EXPECT_FALSE(lease->valid());
    deadline = base::Now() + kTimeout;
    other->unlock();
    punctuality.Note(deadline);
    deadline = base::Now() + kTimeout;
    dropped.reset();
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(Await([&] { return lease->Release().ok(); }));  // it may be called again
  for (const char* name : {"lock", "other", "third"}) {
    EXPECT_TRUE(AwaitHeld(false, name));  // by the background where nobody calls again
  }
  EXPECT_OK(NewLock(client)->Acquire());
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

TEST_P(UnreachableOfLocks, ServerThatRestartsWithItsDataKeepsHoldsAndWaiters) {
  UseOwnServer({.append_only = true});
  const Client client = NewWarmClient();
  const auto lock = NewLock(client);
  auto lease = lock->Acquire();
  ASSERT_OK(lease);
  const Client other = NewClient();
  Crew crew;
  Protected shared;
  shared.Touch(*lease);
  crew.Start([&] {
    const auto theirs = NewLock(other)->Acquire({.wait = kPatience});
    ASSERT_OK(theirs);
    shared.Touch(*theirs);
  });
  ASSERT_TRUE(AwaitQueued(1));
  server().Restart();
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(Await([&] { return CodeOf(lease->Release()) == kOk; }));
  crew.Join();
  EXPECT_EQ(shared.touches(), 2);
}

TEST_P(UnreachableOfLocks, ServerThatRestartsWithoutItsDataIsTheLossOfItsHoldsAndTokensStillGrow) {
  const auto heard = std::make_shared<Recorder>();
  const Client client = NewWarmClient({.observer = heard});
  const auto lock = NewLock(client);
  auto lease = lock->Acquire();
  ASSERT_OK(lease);
  const std::stop_token lost = lease->lost();
  const Client other = NewClient();
  std::optional<Lease> theirs;
  Crew crew;
  crew.Start([&] { theirs = *NewLock(other)->Acquire({.wait = kPatience}); });
  ASSERT_TRUE(AwaitQueued(1));
  server().Restart();
  crew.Join();
  EXPECT_GT(theirs->fencing_token(), lease->fencing_token());
  EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  EXPECT_TRUE(heard->Await("lost"));
  EXPECT_EQ(CodeOf(lease->Release()), kLost);
  EXPECT_TRUE(theirs->valid());
  EXPECT_EQ(CodeOf(Try(client)), kBusy);
}

}  // namespace
}  // namespace redlatch::conformance
