// Several clients' machines against a naive server, through a hostile network, in virtual time.
// REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include <gtest/gtest.h>

#include "tests/unit/engine/machine/lock_model.h"
#include "tests/unit/engine/machine/model_schedules.h"

namespace redlatch::engine {
namespace {

// What happens when, by chance.
class Schedule : public LockModel {
 public:
  using LockModel::LockModel;

 private:
  void Step() override {
    const int c = Pick(clients());
    Thread& thread = users_[c].threads[Pick(static_cast<int>(users_[c].threads.size()))];
    switch (Pick(16)) {
      case 0:
      case 1:
        return Acquire(c);
      case 2:
        if (Chance(4)) GiveUp(c, thread);
        return;
      case 3:
      case 4:
        return Release(c, thread);
      case 5:
        if (thread.to_poke || Chance(10)) Poke(c, thread);
        return;
      case 6:
      case 7:
      case 8:
        Fetch(c);
        return;
      case 9:
      case 10:
      case 11:
        return Network();
      case 12:
        return Messages();
      case 13:
        return Seldom(c);
      case 14:
        return Expire(c);
      default:
        return Pass(200);
    }
  }

  void Seldom(int c) {
    if (Chance(3)) Late();
    if (Chance(20)) Reconnect(c, !server_.subscribed[clients_[c]->id] || Chance(2));
    if (forcing_ && Chance(10)) server_.Force(now_);
    if (losing_data_ && Chance(20)) {
      Say("data are lost");
      server_.LoseData(now_);
    }
    if (Chance(4)) ReleaseAgain(c);
    for (Thread& thread : users_[c].threads) Draw(c, thread);
  }

  bool GoOnInCalm(int c) override {
    bool progress = false;
    Expire(c);
    for (Thread& thread : users_[c].threads) {
      if (thread.to_poke && thread.state == Thread::State::kWaiting) {
        Poke(c, thread);
        progress = true;
      }
      while (HasToRelease(thread) && !failed()) {
        Release(c, thread);
        progress = true;
      }
    }
    return progress;
  }

  bool HasGhost() {
    if (losing_data_ || forcing_) return true;
    for (const auto& [grant, owner] : server_.Known(now_)) had_ghost_ |= IsGhost(grant, owner);
    return had_ghost_;
  }

  void CalmDown() override {
    Calm();
    poking_ = true;
    AllLate();
    const bool reconnecting = Chance(2);
    ReconnectAll(reconnecting);
    // A heartbeat, or the longest backoff, repairs all but holds that nobody knows of.
    const Instant decided_by = now_ + absl::Milliseconds(reconnecting ? 1100 : 1500);
    const Instant ghosts_gone_by = now_ + 3 * kLongestLease + absl::Seconds(2);
    RunOut([&] { return HasGhost() ? ghosts_gone_by : decided_by; });
    if (failed()) return;
    for (const User& user : users_) {
      for (const auto& [waiter, state] : user.waiters) EXPECT_EQ(waiter.state, state);
    }
    if (!losing_data_) ExpectOnlyGhosts();
    // The fence may be where a lease ends that has just begun.
    EXPECT_LE(server_.most_ahead, absl::ToInt64Microseconds(kLongestLease) + 1)
        << "outruns the clock";
  }

  bool had_ghost_ = false;
};

TEST(LockMachineModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<Schedule>(
      8000,
      {{"grants", &Schedule::grants}, {"rests", &Schedule::rests}, {"draws", &Schedule::draws}});
}

}  // namespace
}  // namespace redlatch::engine
