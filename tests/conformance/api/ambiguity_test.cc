// Replies that are lost and requests that are late: what the server may have done, once or not at
// all, and what the client makes of it.
#include <atomic>
#include <memory>
#include <optional>

#include "gtest/gtest.h"
#include "tests/conformance/api/behind_proxy.h"
#include "tests/conformance/api/conformance.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::conformance {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(600);

class AmbiguityBehindProxy : public BehindProxy<Conformance> {
 protected:
  // Used already, so that both its connections are there.
  Client NewUsedClient() {
    Client client = NewFarClient();
    EXPECT_OK(NewAny(client, "warm")->Acquire({.wait = kPatience}));
    return client;
  }
  std::unique_ptr<support::AnyLock> NewFar(absl::Duration lease = kShort) {
    return NewAny(NewUsedClient(), kName, LeaseOf(lease));
  }
  auto TryNear() { return Try(*NewAny(near_)); }
  size_t Holders() {
    const auto info = NewAny(near_)->Inspect();
    EXPECT_OK(info);
    return info.ok() ? info->holders.size() : 0;
  }
};

// Of whatever excludes others.
class Ambiguity : public AmbiguityBehindProxy {};
INSTANTIATE_FOR_ALL_THAT_EXCLUDE_OVER_TCP(Ambiguity);

TEST_P(Ambiguity, ASubscriptionThatHangsDoesNotFailAFirstTry) {
  const Client client = NewFarClient();
  proxy_.SetArrival(support::Arrival::kHang);
  EXPECT_OK(NewAny(client)->TryAcquire());
  proxy_.Heal();
}

TEST_P(Ambiguity, OfAnAcquireWhoseReplyWasLostIsOneAcquisition) {
  for (const bool silently : {false, true}) {
    const auto lock = NewFar();
    LoseNextReply(silently);
    auto lease = lock->Acquire({.wait = kPatience});
    ASSERT_OK(lease);
    EXPECT_TRUE(lease->valid());
    EXPECT_EQ(Holders(), 1);
    EXPECT_EQ(CodeOf(TryNear()), kBusy);
    EXPECT_OK(lease->Release());
    EXPECT_EQ(Holders(), 0);
    EXPECT_OK(TryNear());
  }
}

TEST_P(Ambiguity, OfAnAcquireThatIsGivenUpLeavesNoHold) {
  const auto lock = NewFar();
  proxy_.Drop(Direction::kToClient);
  EXPECT_EQ(CodeOf(lock->TryAcquire()), kUnreachable);
  proxy_.Heal();
  EXPECT_OK(NewAny(near_)->Acquire({.wait = kShort / 2}));  // it is given back in the background
}

TEST_P(Ambiguity, OfAReleaseWhoseReplyWasLostIsOneReleaseAndItMayBeCalledAgain) {
  for (const bool silently : {false, true}) {
    // A connection that only goes silent is given up after a second.
    const auto lock = NewFar(silently ? kLease : kShort);
    auto lease = lock->Acquire();
    ASSERT_OK(lease);
    LoseNextReply(silently);
    const absl::Status first = lease->Release();
    EXPECT_TRUE(first.ok() || first.code() == kUnreachable) << first;
    EXPECT_FALSE(lease->valid());
    const auto theirs = TryNear();  // it was executed
    ASSERT_OK(theirs);
    absl::Status again;
    EXPECT_TRUE(Await([&] {
      again = lease->Release();
      return again.code() != kUnreachable;
    }));
    EXPECT_OK(again);
    EXPECT_TRUE(theirs->valid());
    EXPECT_EQ(Holders(), 1);
  }
  EXPECT_EQ(heard_->Count("lost"), 0);
}

TEST_P(Ambiguity, OfAReleaseThatNeverArrivedIsMendedInTheBackground) {
  const auto lock = NewFar();
  auto lease = std::make_optional(*lock->Acquire());
  proxy_.Drop(Direction::kToServer);
  lease.reset();
  EXPECT_TRUE(IsHeld());
  proxy_.Heal();
  EXPECT_OK(NewAny(near_)->Acquire({.wait = kPatience}));
}

TEST_P(Ambiguity, OfARenewalWhoseReplyWasLostIsNoLoss) {
  for (const bool silently : {false, true}) {
    // A connection that only goes silent is given up after a second.
    const auto lock = NewFar(silently ? absl::Seconds(3) : kShort);
    auto lease = lock->Acquire();
    ASSERT_OK(lease);
    const int risks = heard_->Count("at risk");
    // Perhaps the next one of a server was no renewal's: of a quorum, some have yet to answer the
    // acquisition.
    EXPECT_TRUE(Await([&] {
      LoseNextReply(silently);
      return heard_->Await("at risk", risks + 1, absl::Seconds(2));
    }));
    EXPECT_TRUE(heard_->Await("recovered", risks + 1));
    EXPECT_TRUE(lease->valid());
    EXPECT_OK(lease->Release());
  }
  EXPECT_EQ(heard_->Count("lost"), 0);
}

TEST_P(Ambiguity, OfAGrantWhoseMessageWasLostIsMendedByTheHeartbeat) {
  auto lease = NewAny(near_)->Acquire();
  ASSERT_OK(lease);
  const auto lock = NewFar();
  Crew crew;
  crew.Start([&] {
    const auto mine = lock->Acquire({.wait = kPatience});
    ASSERT_OK(mine);
    EXPECT_TRUE(mine->valid());
    EXPECT_EQ(Holders(), 1);
  });
  ASSERT_TRUE(AwaitQueued(1));
  proxy_.Drop(Direction::kToClient, Scope::kExisting);
  EXPECT_OK(lease->Release());
  EXPECT_TRUE(AwaitQueued(0));  // it was granted
  proxy_.Heal();
}

TEST_P(Ambiguity, OfARequestThatArrivesAfterTheReleaseTakesAndQueuesNothing) {
  const auto lock = NewFar();
  Crew crew;
  DelayRequestsOf(crew, [&] {
    const auto lease = lock->Acquire({.wait = kPatience});  // by its second attempt
    EXPECT_OK(lease);
  });
  crew.Join();
  EXPECT_TRUE(AwaitTombstone());  // of the release
  DeliverWhatWaits();
  EXPECT_OK(TryNear());
  EXPECT_EQ(server().Integer({"EXISTS", Auxiliary("queue")}), 0);
}

TEST_P(Ambiguity, OfARequestThatArrivesAfterItsTryWasGivenUpTakesNothing) {
  const auto lock = NewFar();
  Crew crew;
  DelayRequestsOf(crew, [&] {
    // It may have tried a second time on a new connection, where it had an answer.
    const auto lease = lock->TryAcquire();
    EXPECT_TRUE(lease.ok() || CodeOf(lease) == kUnreachable) << lease.status();
  });
  crew.Join();
  EXPECT_TRUE(AwaitTombstone());
  DeliverWhatWaits();
  EXPECT_OK(TryNear());
}

TEST_P(Ambiguity, OfARequestThatArrivesAfterItsWaiterWasServedQueuesNothing) {
  auto occupied = NewAny(near_)->Acquire();
  ASSERT_OK(occupied);
  const auto lock = NewFar();
  Crew crew;
  DelayRequestsOf(crew, [&] { EXPECT_OK(lock->Acquire({.wait = kPatience})); });
  ASSERT_TRUE(AwaitQueued(1));
  EXPECT_OK(occupied->Release());
  crew.Join();
  EXPECT_TRUE(AwaitHeld(false));
  DeliverWhatWaits();
  EXPECT_OK(TryNear());
  EXPECT_EQ(server().Integer({"EXISTS", Auxiliary("queue")}), 0);
}

class AmbiguityOfLocks : public AmbiguityBehindProxy {
 protected:
  std::unique_ptr<RedisLockBase> NewFarLock() {
    return NewLock(NewUsedClient(), kName, LeaseOf(kShort));
  }
};
INSTANTIATE_FOR_KINDS(AmbiguityOfLocks);

TEST_P(AmbiguityOfLocks, OfALockWhoseReplyWasLostIsCountedOnce) {
  const auto lock = NewFarLock();
  LoseNextReply();
  lock->lock();
  EXPECT_EQ(lock->hold_count(), 1);
  lock->unlock();
  EXPECT_OK(TryNear());
}

TEST_P(AmbiguityOfLocks, OfAnUnlockWhoseReplyWasLostIsNoHindranceToOthersOrOneself) {
  const auto lock = NewFarLock();
  lock->lock();
  LoseNextReply();
  lock->unlock();
  EXPECT_OK(TryNear());
  EXPECT_OK(lock->Acquire({.wait = kPatience}));
}

TEST_P(AmbiguityOfLocks, OfAGrantThatArrivesAfterItsLeaseIsOverIsNoHold) {
  auto lease = NewLock(near_)->Acquire();
  ASSERT_OK(lease);
  const Client far = ClientAt(UrlThrough(proxy_), "command_timeout=2s");
  const auto lock = NewLock(far, kName, LeaseOf(kShort));
  Protected shared;
  shared.Touch(*lease);
  Crew crew;
  crew.Start([&] {
    const auto mine = lock->Acquire({.wait = kPatience});
    ASSERT_OK(mine);
    shared.Touch(*mine);
  });
  ASSERT_TRUE(AwaitQueued(1));
  proxy_.Hold(Direction::kToClient);
  proxy_.Hold(Direction::kToServer);
  EXPECT_OK(lease->Release());
  EXPECT_TRUE(AwaitQueued(0));
  auto next = NewLock(near_)->Acquire({.wait = kPatience});  // when the grant has expired
  ASSERT_OK(next);
  proxy_.Heal();
  shared.Touch(*next);
  EXPECT_TRUE(next->valid());
  EXPECT_OK(next->Release());
  crew.Join();
  EXPECT_EQ(shared.touches(), 3);
}

TEST_P(AmbiguityOfLocks, OfEveryReplyAtRandomLosesNothing) {
  const Client far[] = {NewUsedClient(), NewUsedClient()};
  Protected shared;
  std::atomic<bool> stop{false};
  std::atomic<int> unsure{0};
  Crew crew;
  for (const Client& client : far) {
    crew.Start(2, [&](int) {
      const auto lock = NewLock(client, kName, LeaseOf(kShort));
      while (!stop) {
        auto lease = lock->Acquire({.wait = kPatience});
        ASSERT_OK(lease);
        shared.Touch(*lease);
        const absl::Status released = lease->Release();
        EXPECT_TRUE(released.ok() || released.code() == kUnreachable) << released;
        unsure += released.ok() ? 0 : 1;
      }
    });
  }
  for (int i = 0; i < support::Scaled(20); ++i) {
    const int64_t before = shared.touches();
    EXPECT_TRUE(Await([&] { return shared.touches() > before + 5; }));
    LoseNextReply();
  }
  stop = true;
  crew.Join();
  EXPECT_EQ(heard_->Count("lost"), 0);
}

}  // namespace
}  // namespace redlatch::conformance
