// Replies that are lost and requests that are late: what the server may have done, once or not at
// all, and what the client makes of it.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::conformance {
namespace {

using support::Direction;
using support::Scope;

constexpr char kUrlOptions[] = "command_timeout=150ms";
constexpr absl::Duration kShort = absl::Milliseconds(600);

class Ambiguity : public Conformance {
 protected:
  // Behind the proxy, and used already, so that both its connections are there.
  Client NewFarClient() {
    Client client = ClientAt(proxy_.url(), kUrlOptions, {.observer = heard_});
    EXPECT_OK(Try(client, "warm"));
    return client;
  }
  std::unique_ptr<RedisLockBase> NewFarLock() {
    return NewLock(NewFarClient(), kName, LeaseOf(kShort));
  }
  // The next reply is lost with its connection: the client knows at once that it will not come.
  void LoseNextReply() { proxy_.CutAfter(Direction::kToClient, 0); }
  // Requests that are sent from now on wait in the proxy, while their sender is told that its
  // connection is over; what it sends after that passes.
  void DelayRequestsOf(Crew& crew, std::function<void()> call) {
    proxy_.Hold(Direction::kToServer, Scope::kExisting);
    crew.Start(std::move(call));
    EXPECT_TRUE(
        proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting > 0; }));
    proxy_.HalfClose(Direction::kToClient);
  }
  void DeliverWhatWaits() {
    proxy_.ReleaseHeld();
    EXPECT_TRUE(
        proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting == 0; }));
  }
  size_t Holders() {
    const auto info = NewLock(near_)->Inspect();
    EXPECT_OK(info);
    return info.ok() ? info->holders.size() : 0;
  }

  support::TcpProxy proxy_{{.port = server().port()}};
  const std::shared_ptr<Recorder> heard_ = std::make_shared<Recorder>();
  const Client near_ = NewClient();
};

TEST_P(Ambiguity, ASubscriptionThatHangsDoesNotFailAFirstTry) {
  const Client client = ClientAt(proxy_.url(), kUrlOptions);
  proxy_.SetArrival(support::Arrival::kHang);
  EXPECT_OK(NewLock(client)->TryAcquire());
  proxy_.Heal();
}

TEST_P(Ambiguity, OfAnAcquireWhoseReplyWasLostIsOneAcquisition) {
  for (const bool silently : {false, true}) {
    const auto lock = NewFarLock();
    silently ? proxy_.DropReplies(1) : LoseNextReply();
    auto lease = lock->Acquire({.wait = kPatience});
    ASSERT_OK(lease);
    EXPECT_TRUE(lease->valid());
    EXPECT_EQ(Holders(), 1);
    EXPECT_EQ(CodeOf(Try(near_)), kBusy);
    EXPECT_OK(lease->Release());
    EXPECT_EQ(Holders(), 0);
    EXPECT_OK(Try(near_));
  }
}

TEST_P(Ambiguity, OfALockWhoseReplyWasLostIsCountedOnce) {
  const auto lock = NewFarLock();
  LoseNextReply();
  lock->lock();
  EXPECT_EQ(lock->hold_count(), 1);
  lock->unlock();
  EXPECT_OK(Try(near_));
}

TEST_P(Ambiguity, OfAnAcquireThatIsGivenUpLeavesNoHold) {
  const auto lock = NewFarLock();
  proxy_.Drop(Direction::kToClient);
  EXPECT_EQ(CodeOf(lock->TryAcquire()), kUnreachable);
  proxy_.Heal();
  EXPECT_OK(NewLock(near_)->Acquire({.wait = kShort / 2}));  // it is given back in the background
}

TEST_P(Ambiguity, OfAReleaseWhoseReplyWasLostIsOneReleaseAndItMayBeCalledAgain) {
  const auto lock = NewFarLock();
  auto lease = lock->Acquire();
  ASSERT_OK(lease);
  LoseNextReply();
  const absl::Status first = lease->Release();
  EXPECT_TRUE(first.ok() || first.code() == kUnreachable) << first;
  EXPECT_FALSE(lease->valid());
  const auto theirs = Try(near_);  // it was executed
  ASSERT_OK(theirs);
  absl::Status again;
  EXPECT_TRUE(Await([&] {
    again = lease->Release();
    return again.code() != kUnreachable;
  }));
  EXPECT_OK(again);
  EXPECT_TRUE(theirs->valid());
  EXPECT_EQ(Holders(), 1);
  EXPECT_EQ(heard_->Count("lost"), 0);
}

TEST_P(Ambiguity, OfAnUnlockWhoseReplyWasLostIsNoHindranceToOthersOrOneself) {
  const auto lock = NewFarLock();
  lock->lock();
  LoseNextReply();
  lock->unlock();
  EXPECT_OK(Try(near_));
  EXPECT_OK(lock->Acquire({.wait = kPatience}));
}

TEST_P(Ambiguity, OfAReleaseThatNeverArrivedIsMendedInTheBackground) {
  const auto lock = NewFarLock();
  auto lease = std::make_optional(*lock->Acquire());
  proxy_.Drop(Direction::kToServer);
  lease.reset();
  EXPECT_TRUE(IsHeld());
  proxy_.Heal();
  EXPECT_OK(NewLock(near_)->Acquire({.wait = kPatience}));
}

TEST_P(Ambiguity, OfARenewalWhoseReplyWasLostIsNoLoss) {
  for (const bool silently : {false, true}) {
    // A connection that only goes silent is given up after a second.
    const auto lock =
        NewLock(NewFarClient(), kName, silently ? LeaseOf(absl::Seconds(3)) : LeaseOf(kShort));
    auto lease = lock->Acquire();
    ASSERT_OK(lease);
    const int risks = heard_->Count("at risk");
    silently ? proxy_.DropReplies(1) : LoseNextReply();
    ASSERT_TRUE(heard_->Await("at risk", risks + 1));
    EXPECT_TRUE(heard_->Await("recovered", risks + 1));
    EXPECT_TRUE(lease->valid());
    EXPECT_OK(lease->Release());
  }
  EXPECT_EQ(heard_->Count("lost"), 0);
}

TEST_P(Ambiguity, OfAGrantWhoseMessageWasLostIsMendedByTheHeartbeat) {
  auto lease = NewLock(near_)->Acquire();
  ASSERT_OK(lease);
  const auto lock = NewFarLock();
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
  const auto lock = NewFarLock();
  Crew crew;
  DelayRequestsOf(crew, [&] {
    const auto lease = lock->Acquire({.wait = kPatience});  // by its second attempt
    EXPECT_OK(lease);
  });
  crew.Join();
  // The release left a tombstone.
  EXPECT_TRUE(Await([&] { return !server().Command({"KEYS", "*.gone.*"}).elements.empty(); }));
  DeliverWhatWaits();
  EXPECT_OK(Try(near_));
  EXPECT_EQ(server().Integer({"EXISTS", Auxiliary("queue")}), 0);
}

TEST_P(Ambiguity, OfARequestThatArrivesAfterItsTryWasGivenUpTakesNothing) {
  const auto lock = NewFarLock();
  Crew crew;
  DelayRequestsOf(crew, [&] {
    // It may have tried a second time on a new connection, where it had an answer.
    const auto lease = lock->TryAcquire();
    EXPECT_TRUE(lease.ok() || CodeOf(lease) == kUnreachable) << lease.status();
  });
  crew.Join();
  EXPECT_TRUE(Await([&] { return !server().Command({"KEYS", "*.gone.*"}).elements.empty(); }));
  DeliverWhatWaits();
  EXPECT_OK(Try(near_));
}

TEST_P(Ambiguity, OfARequestThatArrivesAfterItsWaiterWasServedQueuesNothing) {
  auto occupied = NewLock(near_)->Acquire();
  ASSERT_OK(occupied);
  const auto lock = NewFarLock();
  Crew crew;
  DelayRequestsOf(crew, [&] { EXPECT_OK(lock->Acquire({.wait = kPatience})); });
  ASSERT_TRUE(AwaitQueued(1));
  EXPECT_OK(occupied->Release());
  crew.Join();
  EXPECT_TRUE(AwaitHeld(false));
  DeliverWhatWaits();
  EXPECT_OK(Try(near_));
  EXPECT_EQ(server().Integer({"EXISTS", Auxiliary("queue")}), 0);
}

TEST_P(Ambiguity, OfAGrantThatArrivesAfterItsLeaseIsOverIsNoHold) {
  auto lease = NewLock(near_)->Acquire();
  ASSERT_OK(lease);
  const Client far = ClientAt(proxy_.url(), "command_timeout=2s");
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

TEST_P(Ambiguity, OfEveryReplyAtRandomLosesNothing) {
  const Client far[] = {NewFarClient(), NewFarClient()};
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

INSTANTIATE_FOR_KINDS(Ambiguity);

}  // namespace
}  // namespace redlatch::conformance
