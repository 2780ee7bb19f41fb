// Several clients' machines against a naive server, through a hostile network, in virtual time.
// REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include <gtest/gtest.h>

#include <cstddef>

#include "tests/unit/engine/machine/lock_schedule.h"
#include "tests/unit/engine/machine/model_schedules.h"

namespace redlatch::engine {
namespace {

// Of threads.
class Schedule : public LockSchedule {
 public:
  using LockSchedule::LockSchedule;

 private:
  void Begin(int c, size_t /*i*/) override { Acquire(c); }
  void Stop(int c, size_t i) override { GiveUp(c, users_[c].threads[i]); }
  void GoOn(int c, size_t i) override {
    Thread& thread = users_[c].threads[i];
    if (thread.to_poke || Chance(10)) Poke(c, thread);
  }
  bool GoOnWithReason(int c, size_t i) override {
    Thread& thread = users_[c].threads[i];
    if (!thread.to_poke || thread.state != Thread::State::kWaiting) return false;
    Poke(c, thread);
    return true;
  }
  void AlsoSeldom(int c) override {
    for (Thread& thread : users_[c].threads) Draw(c, thread);
  }
  void CheckAfterCalm() override {
    for (const User& user : users_) {
      for (const auto& [waiter, state] : user.waiters) EXPECT_EQ(waiter.state, state);
    }
  }
};

TEST(LockMachineModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<Schedule>(20000, {{"grants", &Schedule::grants},
                                 {"rests", &Schedule::rests},
                                 {"taken again", &Schedule::again, 2},
                                 {"draws", &Schedule::draws}});
}

}  // namespace
}  // namespace redlatch::engine
