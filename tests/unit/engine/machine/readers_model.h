#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_MODEL_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_MODEL_H_

#include <memory>
#include <optional>
#include <vector>

#include "tests/unit/engine/machine/readers_world.h"

namespace redlatch::engine {

// What the threads of that world do.
class ReadersModel : public ReadersWorld {
 public:
  using ReadersWorld::ReadersWorld;

 protected:
  // ---- Threads.

  void Write(int c, Thread& thread) {
    if (thread.waiter != nullptr) return;
    Expire(c);
    if (thread.write ? thread.write->lost || thread.write->faces.size() >= 3
                     : thread.read && !thread.read->lost) {
      return;  // it has it already, or would wait for itself
    }
    thread.at = users_[c].exclusive;
    thread.nested = false;
    Ask(c, thread);
    Say(c, ".", thread.id, " writes");
    Enter(c, thread);
  }

  void Read(int c, Thread& thread) {
    if (thread.waiter != nullptr) return;
    User& user = users_[c];
    Expire(c);
    if (thread.read) {
      if (thread.read->lost || thread.read->faces.size() >= 3) return;
      const Face face = Chance(2) ? Face::kStd : Face::kStatus;
      const auto again = thread.read->group->lock().Reenter(thread.id, face, false, Local(c));
      ASSERT_TRUE(again.has_value());
      EXPECT_EQ(again->hold, thread.read->hold);
      thread.read->faces.push_back(face);
      return;
    }
    const auto writes = user.exclusive->lock().OfThread(thread.id);
    thread.nested = writes.depth > 0;
    if (!Chance(4) && user.latest != nullptr && ReadAgain(c, thread)) return;
    Ask(c, thread);
    Say(c, ".", thread.id, thread.nested ? " reads as it writes" : " reads");
    if (thread.nested) {
      const FencingToken token = user.exclusive->lock().Pin(thread.id).token;
      if (token != writes.token && thread.write) OnToken(thread, token);
      thread.waiter->write_token = token;
      thread.at = Found(c, Side::kNest, writes.grant);
    }
    EnterGroup(c, thread);
  }

  // As Readers::LockAgain().
  bool ReadAgain(int c, Thread& thread) {
    const PortPtr group = users_[c].latest;
    LockMachine& machine = group->lock();
    if (Hears(c)) machine.OnHearing();
    if (!machine.Retake(thread.id, options_, Local(c))) return false;
    Say(c, ".", thread.id, " reads again");
    EXPECT_EQ(users_[c].exclusive->lock().OfThread(thread.id).depth, 0) << "it writes";
    const auto held = machine.OfThread(thread.id);
    EXPECT_TRUE(machine.Valid(held.hold, Local(c)));
    EXPECT_GE(held.token.value(), last_token_) << "older than the last write";
    thread.read = Tenancy{group, held.hold, held.token, {Face::kStd}, machine.Deadline(held.hold)};
    ++reads_;
    ++again_;
    Check();
    return true;
  }
  // As Readers::Leave().
  bool Leave(int c, Thread& thread) {
    std::shared_ptr<const LockOptions> ended;
    if (!thread.read->group->lock().Leave(thread.id, Local(c), ended)) return false;
    Say(c, ".", thread.id, " leaves");
    EXPECT_NE(ended, nullptr);
    EXPECT_EQ(thread.read->faces, std::vector<Face>{Face::kStd});
    EXPECT_FALSE(thread.read->lost);
    thread.read.reset();
    Check();
    if (!Chance(4)) ReadAgain(c, thread);  // as in a loop
    return true;
  }

  void Ask(int c, Thread& thread) {
    Waiter& waiter = users_[c].waiters.emplace_back();
    ModelClients::Ask(waiter);
    waiter.thread = thread.id;
    waiter.face = Chance(2) ? Face::kStd : Face::kStatus;
    if (waiter.terms.lease == kLongestLease) waiter.terms.whole = Chance(3);
    thread.waiter = &waiter;
    thread.asked = ++server_.steps;
  }

  // As Readers::Acquire(): the latest group, or the next where that one takes nobody in.
  void EnterGroup(int c, Thread& thread) {
    User& user = users_[c];
    do {
      if (thread.waiter->state == Waiter::State::kElsewhere) {
        const Waiter before = *thread.waiter;
        thread.waiter = &user.waiters.emplace_back();
        thread.waiter->thread = before.thread;
        thread.waiter->face = before.face;
        thread.waiter->patience = before.patience;
        thread.waiter->began = before.began;
        thread.waiter->silent_since = before.silent_since;
        thread.waiter->failure = before.failure;
        thread.waiter->terms = before.terms;
        thread.waiter->options = before.options;
        thread.waiter->write_token = before.write_token;
      }
      if (!thread.nested) {
        if (user.latest == nullptr || user.latest == thread.at) {
          user.latest = Found(c, Side::kRead);
        }
        thread.at = user.latest;
      }
      Enter(c, thread);
    } while (thread.waiter != nullptr && thread.waiter->state == Waiter::State::kElsewhere &&
             !failed());
  }

  void Enter(int c, Thread& thread) {
    Effects effects;
    Waiter& waiter = *thread.waiter;
    thread.to_go_on = false;
    const PortPtr group = thread.at;
    if (Hears(c)) group->lock().OnHearing();
    group->lock().Acquire(waiter, Local(c), effects);
    waiter.parked = waiter.state == Waiter::State::kWaiting;
    Absorb(c, *group, effects);
  }

  void GiveUp(int c, Thread& thread) {
    if (thread.waiter == nullptr) return;
    Say(c, ".", thread.id, " gives up");
    Effects effects;
    const bool stop = thread.waiter->patience == Patience::kEndless;
    const PortPtr group = thread.at;
    thread.waiter->parked = false;
    if (thread.waiter->state == Waiter::State::kElsewhere) return Ended(thread);
    group->lock().GiveUp(*thread.waiter, stop ? Waiter::State::kStopped : Waiter::State::kBusy,
                         Local(c), effects);
    Absorb(c, *group, effects);
  }

  // A thread that was woken, or is `early`.
  void GoOn(int c, Thread& thread, bool early) {
    if (thread.waiter == nullptr || (!thread.to_go_on && !early)) return;
    thread.to_go_on = false;
    if (thread.waiter->state == Waiter::State::kElsewhere) return EnterGroup(c, thread);
    Say(c, ".", thread.id, " looks");
    Effects effects;
    const PortPtr group = thread.at;
    group->lock().Poked(*thread.waiter, Local(c), effects);
    Absorb(c, *group, effects);
  }

  static bool CanRelease(const Thread& thread, bool reading) {
    return thread.waiter == nullptr && (reading ? thread.read : thread.write);
  }
  void Release(int c, Thread& thread, bool reading) {
    if (!CanRelease(thread, reading)) return;
    Expire(c);
    if (reading && Chance(2) && Leave(c, thread)) return;
    User& user = users_[c];
    std::optional<Tenancy>& tenancy = reading ? thread.read : thread.write;
    const PortPtr group = tenancy->group;
    LockMachine& machine = group->lock();
    const Face face = tenancy->faces.back();
    const bool outer = tenancy->faces.size() == 1;
    Effects effects;
    const bool leaves = face == Face::kStd && !outer && !tenancy->lost;
    const Released released =
        leaves ? Released{.kind = machine.ReleaseInner(thread.id, face) ? Released::Kind::kDone
                                                                        : Released::Kind::kNotHeld}
        : face == Face::kStd ? machine.Unlock(thread.id, Local(c), effects)
                             : machine.Release(tenancy->hold, Local(c), effects);
    Say(c, ".", thread.id,
        reading ? " reads no more: " : " writes no more: ", static_cast<int>(released.kind));
    if (tenancy->lost) {
      EXPECT_EQ(released.kind, Released::Kind::kLost);
    } else if (released.kind == Released::Kind::kUnderWay) {
      EXPECT_TRUE(outer);
      user.endings.push_back({group, tenancy->hold, tenancy->deadline});
    } else {
      EXPECT_EQ(released.kind, Released::Kind::kDone);
    }
    tenancy->faces.pop_back();
    if (outer) tenancy.reset();
    Absorb(c, *group, effects);
  }
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_MODEL_H_
