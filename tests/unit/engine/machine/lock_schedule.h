#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LOCK_SCHEDULE_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LOCK_SCHEDULE_H_

#include <cstddef>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/unit/engine/machine/lock_model.h"

namespace redlatch::engine {

// What happens to the callers of a lock when, by chance; what a caller is, a subclass says.
class LockSchedule : public LockModel {
 public:
  using LockModel::LockModel;

 protected:
  // Of the client's caller of that number, if it is one to which that can happen.
  virtual void Begin(int c, size_t i) = 0;
  virtual void Stop(int c, size_t i) = 0;
  virtual void GoOn(int c, size_t i) = 0;
  // The same when the world is calm: only if it has reason to. False: it has none.
  virtual bool GoOnWithReason(int c, size_t i) = 0;
  virtual void AlsoSeldom(int /*c*/) {}
  virtual void CheckAfterCalm() {}

 private:
  void Step() override {
    const int c = Pick(clients());
    const auto i = static_cast<size_t>(Pick(static_cast<int>(users_[c].threads.size())));
    switch (Pick(16)) {
      case 0:
      case 1:
        return Begin(c, i);
      case 2:
        if (Chance(4)) Stop(c, i);
        return;
      case 3:
      case 4:
        return Release(c, users_[c].threads[i]);
      case 5:
        return GoOn(c, i);
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
    AlsoSeldom(c);
  }

  bool GoOnInCalm(int c) override {
    bool progress = false;
    Expire(c);
    for (size_t i = 0; i < users_[c].threads.size() && !failed(); ++i) {
      progress |= GoOnWithReason(c, i);
      Thread& thread = users_[c].threads[i];
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
    CheckAfterCalm();
    if (!losing_data_) ExpectOnlyGhosts();
    EXPECT_LE(server_.most_ahead, 2 * 4096) << "tokens outrun the clock";
  }

  bool had_ghost_ = false;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LOCK_SCHEDULE_H_
