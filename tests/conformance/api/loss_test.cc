// The loss of a hold: who is told, when, in which order, and what fails afterwards.
#include <stdexcept>

#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

constexpr absl::Duration kLossLease = absl::Seconds(1);

struct LossTest : Conformance {
  void Force() { EXPECT_OK(NewAny(other_)->ForceRelease()); }
  template <class Held>
  static bool AwaitLost(const Held& held) {
    return Await([token = held.lost()] { return token.stop_requested(); });
  }

  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const Client client_ = NewClient("command_timeout=200ms", {.observer = recorder_});
  const Client other_ = NewClient();
};

// For locks and semaphores.
struct Loss : LossTest {
  const std::unique_ptr<support::AnyLock> lock_ = NewAny(client_);
};
INSTANTIATE_CONFORMANCE(Loss, OverTcp(ExclusiveCases()));

TEST_P(Loss, ForcedReleaseIsReportedAtOnce) {
  const base::Instant before = base::Now();
  auto lease = Must(lock_->Acquire({.lease = absl::Seconds(5)}));  // without renewals
  EXPECT_FALSE(lease.lost().stop_requested());
  Force();
  EXPECT_TRUE(AwaitLost(lease));
  EXPECT_LT(base::Now() - before, absl::Seconds(4));  // not only at its end
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lease.remaining(), absl::ZeroDuration());
  EXPECT_EQ(CodeOf(lease.Release()), kLost);
  EXPECT_EQ(CodeOf(lease.Release()), kLost);
  EXPECT_TRUE(recorder_->Await("lost"));
  EXPECT_EQ(recorder_->All("lost")[0].token, lease.fencing_token());
  EXPECT_TRUE(recorder_->Await("released"));
  EXPECT_EQ(recorder_->All("released")[0].token, lease.fencing_token());
}

TEST_P(Loss, IsReportedByTokenObserverAndCallback) {
  std::optional<support::AnyHold> lease;
  std::stop_token token;
  std::atomic<bool> valid{true};
  LockOptions options = Options();
  options.on_lost = [&](const LostLease& lost) {
    EXPECT_TRUE(token.stop_requested());
    EXPECT_EQ(lost.lock, Called());
    EXPECT_EQ(lost.server, client_.server());
    EXPECT_EQ(lost.token, lease->fencing_token());
    EXPECT_FALSE(lost.reason.empty());
    recorder_->Note({.what = "callback"});
  };
  const auto lock = NewAny(client_, kName, options);
  lease = *lock->Acquire();
  token = lease->lost();
  const std::stop_callback on_lost(token, [&] {
    valid = lease->valid();
    recorder_->Note({.what = "token"});
  });
  Force();
  EXPECT_TRUE(recorder_->Await("callback") && recorder_->Await("token"));
  EXPECT_FALSE(valid);
  // If the token's callbacks are slow, the notifications after them continue on another thread, so
  // the place of "token" is not fixed.
  std::vector<std::string> story = recorder_->Story();
  EXPECT_EQ(std::erase(story, "token"), 1);
  EXPECT_THAT(story, ElementsAre("acquired", "lost", "callback"));
}

TEST_P(Loss, IsReportedInTimeWhileServerHangs) {
  const auto lock = NewAny(client_, kName, LeaseOf(kLossLease));
  auto lease = Must(lock->Acquire());
  std::atomic<int64_t> fired{0};
  const std::stop_callback on_lost(lease.lost(), [&] { fired = base::Now().nanos(); });
  Punctuality punctuality;
  base::Instant deadline;
  {
    const Outage outage(server(), How::kHangs);
    EXPECT_TRUE(Await([&] {
      const absl::Duration left = lease.remaining();
      if (left > absl::ZeroDuration()) deadline = base::Now() + left;
      return !lease.valid();
    }));
    EXPECT_TRUE(Await([&] { return fired != 0; }));
    EXPECT_EQ(CodeOf(lease.Release()), kLost);
  }
  punctuality.Note(deadline, base::Instant::FromNanos(fired));
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(2)));
  EXPECT_TRUE(recorder_->Await("lost"));
  EXPECT_GE(recorder_->Count("at risk"), 1);
}

TEST_P(Loss, ManualLeaseIsLostAtItsEnd) {
  auto lease = Must(lock_->Acquire({.lease = kLossLease}));
  const base::Instant until = base::Now() + lease.remaining();
  EXPECT_TRUE(AwaitLost(lease));
  EXPECT_GE(base::Now(), until - absl::Milliseconds(20));
  EXPECT_EQ(CodeOf(lease.Release()), kLost);
  EXPECT_EQ(CodeOf(lease.Extend(kLossLease)), kLost);
  EXPECT_TRUE(recorder_->Await("lost"));
  EXPECT_OK(other_.Ping());
  EXPECT_OK(NewAny(other_)->Acquire({.wait = kTestTimeout}));
}

TEST_P(Loss, RecoveredHoldIsNotLost) {
  const auto lock = NewAny(client_, kName, LeaseOf(absl::Milliseconds(1500)));
  auto lease = Must(lock->Acquire());
  {
    const Outage outage(server(), How::kHangs);
    ASSERT_TRUE(recorder_->Await("at risk"));
  }
  const Recorder::Event risk = recorder_->All("at risk")[0];
  EXPECT_EQ(risk.token, lease.fencing_token());
  EXPECT_EQ(risk.status.code(), kUnreachable);
  EXPECT_GT(risk.remaining, absl::ZeroDuration());
  EXPECT_TRUE(recorder_->Await("recovered"));
  EXPECT_TRUE(lease.valid());
  EXPECT_FALSE(lease.lost().stop_requested());
  EXPECT_OK(lease.Release());
  EXPECT_EQ(recorder_->Count("lost"), 0);
}

TEST_P(Loss, HungCallbackDelaysNoOtherLoss) {
  constexpr int kLocks = 5;
  const auto go_on = std::make_shared<std::atomic<bool>>(false);
  LockOptions options = Options();
  options.on_lost = [go_on](const LostLease&) { (void)Await([&] { return go_on->load(); }); };
  std::vector<std::unique_ptr<support::AnyLock>> locks;
  std::vector<support::AnyHold> leases;
  for (int i = 0; i < kLocks; ++i) {
    locks.push_back(NewAny(client_, absl::StrCat(kName, i), options));
    leases.push_back(*locks.back()->Acquire());
    (void)leases.back().lost();
  }
  for (int i = 0; i < kLocks; ++i) {
    EXPECT_OK(NewAny(other_, absl::StrCat(kName, i))->ForceRelease());
  }
  for (const support::AnyHold& lease : leases) EXPECT_TRUE(AwaitLost(lease));
  EXPECT_TRUE(recorder_->Await("lost", kLocks));
  *go_on = true;
}

// No other call starts a thread meanwhile.
TEST_P(Loss, HungCallbackDelaysNoLaterDeadline) {
  const auto go_on = std::make_shared<std::atomic<bool>>(false);
  LockOptions options = Options();
  options.on_lost = [go_on](const LostLease&) { (void)Await([&] { return go_on->load(); }); };
  const auto lock = NewAny(client_, kName, options);
  const auto other = NewAny(client_, "other");
  const auto first = Must(lock->Acquire({.lease = kLossLease}));
  const auto second = Must(other->Acquire({.lease = 2 * kLossLease}));
  EXPECT_TRUE(AwaitLost(second));
  *go_on = true;
}

struct LockLoss : LossTest {
  const std::unique_ptr<RedisLockBase> lock_ = NewLock(client_);
};
INSTANTIATE_CONFORMANCE(LockLoss, OverTcp(LockCases()));

TEST_P(LockLoss, CurrentShowsLossUntilUnlock) {
  lock_->lock();
  const std::stop_token lost = lock_->current().lost();
  const FencingToken token = lock_->current().fencing_token();
  Force();
  EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  EXPECT_EQ(lock_->hold_count(), 0);
  EXPECT_FALSE(lock_->current().valid());
  EXPECT_TRUE(lock_->current().lost().stop_requested());
  EXPECT_EQ(lock_->current().fencing_token(), token);
  lock_->unlock();
  EXPECT_FALSE(lock_->current().lost().stop_possible() && lock_->current().lost().stop_requested());
  ASSERT_TRUE(recorder_->Await("released"));
  EXPECT_EQ(recorder_->All("released")[0].status.code(), kLost);
  EXPECT_EQ(recorder_->Count("misuse"), 0);
  lock_->lock();  // as if no loss had happened
  EXPECT_TRUE(lock_->current().valid());
  EXPECT_EQ(lock_->current().fencing_token() > token, GetParam().kind.has_tokens());
  lock_->unlock();
}

TEST_P(LockLoss, LostLockAcceptsOneUnlockPerLock) {
  const int locks = GetParam().kind.reentrant ? 2 : 1;
  for (int i = 0; i < locks; ++i) lock_->lock();
  const std::stop_token lost = lock_->current().lost();
  Force();
  EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  for (int i = 0; i < locks; ++i) {
    EXPECT_TRUE(lock_->current().lost().stop_requested());
    lock_->unlock();
  }
  EXPECT_EQ(recorder_->Count("misuse"), 0);
  lock_->unlock();
  EXPECT_TRUE(recorder_->Await("misuse"));
}

TEST_P(LockLoss, TokenReportsLossAfterManyLaterHolds) {
  const Lease lease = *lock_->Acquire();
  const Hold view = lease.hold();
  Force();
  EXPECT_TRUE(Await([&] { return !lease.valid(); }));
  for (int i = 0; i < 300; ++i) {
    const Lease next = *lock_->Acquire();
    EXPECT_OK(lock_->ForceRelease());
    ASSERT_TRUE(Await([&] { return !next.valid(); }));
  }
  EXPECT_TRUE(lease.lost().stop_requested());
  EXPECT_TRUE(view.lost().stop_requested());
}

// A user's function throws: the library continues, and reports it on stderr.

class Thrower : public Observer {
 public:
  void OnAcquired(std::string_view, FencingToken, absl::Duration) override { Throw(); }
  void OnWaitEnded(std::string_view, absl::Duration, const absl::Status&) override { Throw(); }
  void OnReleased(std::string_view, FencingToken, const absl::Status&) override { Throw(); }
  void OnRenewed(std::string_view, FencingToken) override { Throw(); }
  void OnLost(const LostLease&) override { Throw(); }
  void OnMisuse(std::string_view, std::string_view) override { Throw(); }
  void OnReconnected(std::string_view) override { throw 42; }

  int thrown() const { return thrown_; }

 private:
  void Throw() {
    ++thrown_;
    throw std::runtime_error("from an observer");
  }
  std::atomic<int> thrown_{0};
};

class Throwing : public Conformance {};

TEST_P(Throwing, ObserverStopsNothing) {
  const Stderr said;
  const auto thrower = std::make_shared<Thrower>();
  const Client client = NewClient({}, {.observer = thrower});
  const auto lock = NewLock(client);
  lock->lock();
  EXPECT_TRUE(lock->current().valid());
  EXPECT_EQ(CodeOf(NewLock(client)->Acquire({.wait = kGrace, .lease = kLease})),
            GetParam().kind.reentrant ? kOk : kBusy);
  lock->unlock();
  lock->unlock();
  auto lease = Must(lock->Acquire());
  const std::stop_token lost = lease.lost();
  EXPECT_OK(NewLock(client)->ForceRelease());
  EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  const int before = thrower->thrown();
  EXPECT_EQ(CodeOf(lease.Release()), kLost);
  EXPECT_TRUE(Await([&] { return thrower->thrown() > before; }));
  EXPECT_OK(lock->Acquire());
  EXPECT_TRUE(Await([&] {  // at most one line per second is written
    lock->unlock();
    return said.text().find("from an observer") != std::string::npos;
  }));
}

TEST_P(Throwing, OnLostDoesNotSuppressOtherCallbacks) {
  const Stderr said;
  std::atomic<int> told{0};
  LockOptions options = Options();
  options.on_lost = [&](const LostLease& lost) {
    ++told;
    if (lost.lock == "a") throw std::runtime_error("from on_lost");
    throw 42;
  };
  const Client client = NewClient();
  for (const char* name : {"a", "b", "c"}) {
    const auto lease = Must(NewLock(client, name, options)->Acquire());
    EXPECT_OK(NewLock(client, name)->ForceRelease());
    EXPECT_TRUE(Await([&] { return lease.lost().stop_requested(); }));
  }
  EXPECT_TRUE(Await([&] { return told == 3; }));
}

TEST_P(Throwing, StatsLabelCountsLockUnderOtherNames) {
  const Stderr said;
  const Client client = NewClient({}, {.stats_label = [](std::string_view) -> std::string {
                                    throw std::runtime_error("label");
                                  }});
  const auto lock = NewLock(client);
  lock->unlock();
  lock->lock();
  EXPECT_EQ(client.Stats().locks.at(0).name, kOtherNames);
  lock->unlock();
}

INSTANTIATE_CONFORMANCE(Throwing, OverTcp(LockCases()));

}  // namespace
}  // namespace redlatch::conformance
