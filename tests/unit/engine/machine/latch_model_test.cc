// Threads of several clients that wait for a latch, against a naive server, through a hostile
// network, in virtual time. REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include "tests/unit/engine/machine/latch_model.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/machine/model_schedules.h"

namespace redlatch::engine {
namespace {

// What happens when, by chance.
class Schedule : public LatchModel {
 public:
  using LatchModel::LatchModel;

 private:
  void Step() override {
    const int c = Pick(clients());
    const int what = Pick(16);
    if (StandsStill(c) && what < 7) return;
    Thread& thread = users_[c].threads[Pick(kThreads)];
    switch (what) {
      case 0:
      case 1:
        return Wait(c, thread);
      case 2:
        if (Chance(3)) GiveUp(c, thread);
        if (Chance(40)) StopAll(c);
        return;
      case 3:
        return GoOn(c, thread, Chance(10));
      case 4:
      case 5:
      case 6:
        Fetch(c);
        return;
      case 7:
      case 8:
      case 9:
        return Network();
      case 10:
        return Messages();
      case 11:
        return Chance(2) ? Mishap(c) : Late();
      case 12:
        if (server_.count > 0 && Chance(3)) CountDown(Chance(2));
        if (vanishing_ && Chance(20)) Vanish();
        return;
      default:
        return Pass();
    }
  }

  void Mishap(int c) {
    if (!faulty_) return;
    if (Chance(8)) return Die(c);
    if (Chance(4)) return Reconnect(c, Chance(2));
    if (Chance(8)) return StandStill(c, absl::Milliseconds(Pick(1500)));
  }

  bool GoOnInCalm(int c) override {
    for (Thread& thread : users_[c].threads) GoOn(c, thread, false);
    return false;
  }

  // Time goes on until only those still wait whose latch is closed.
  void AwaitOutcomes(Instant decided_by) {
    while (!failed()) {
      SettleAll();
      bool waits = false;
      for (int c = 0; c < clients(); ++c) {
        const int latch = users_[c].incarnation;
        waits |= Waits(c) && (server_.opened.contains(latch) || server_.vanished.contains(latch));
      }
      if (!waits) return;
      ASSERT_LT(NextTimer(), decided_by) << "a waiter is left undecided";
      AwaitTimer();
    }
  }

  void CalmDown() override {
    Calm();
    const bool giving_up = Chance(2);
    if (giving_up) GiveUpAll();
    AllLate();
    EXPECT_TRUE(!giving_up || AnyWaits() || OnlyGhostsWait());
    const bool reconnecting = Chance(2);
    ReconnectAll(reconnecting);
    // Who has reconnected asks at once; else a heartbeat repairs all, or the longest backoff.
    AwaitOutcomes(now_ + absl::Milliseconds(reconnecting ? 0 : 1100));
    Open();
    if (failed()) return;
    PayDebts();
    ExpectIdle();
    EXPECT_TRUE(OnlyGhostsWait());
    now_ = now_ + kLease;
    EXPECT_TRUE(server_.Known(now_).empty());
  }

  // Nobody stays in the queue who does not wait any more.
  void GiveUpAll() {
    for (int c = 0; c < clients(); ++c) {
      for (Thread& thread : users_[c].threads) GiveUp(c, thread);
    }
    PayDebts();
  }
  void PayDebts() {
    SettleAll();
    while (!failed() && !AnyWaits() && !NextTimer().is_infinite()) {
      AwaitTimer();
      SettleAll();
    }
  }

  // In calm everybody who is queued hears of it at once.
  void Open() {
    for (int c = 0; c < clients(); ++c) {
      for (Thread& thread : users_[c].threads) {
        if (Chance(2)) Wait(c, thread);
      }
    }
    SettleAll();
    const Instant queued_by = now_ + absl::Milliseconds(1100);
    while (!failed() && !AllAreQueued()) {
      ASSERT_LT(NextTimer(), queued_by) << "a waiter does not ask";
      AwaitTimer();
      SettleAll();
    }
    while (server_.count > 0) CountDown();
    SettleAll();
    EXPECT_FALSE(AnyWaits()) << "the latch is open";
  }
};

TEST(LockMachineLatchModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<Schedule>(4000, {{"let through", &Schedule::passed}});
}

}  // namespace
}  // namespace redlatch::engine
