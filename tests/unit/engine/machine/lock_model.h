#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LOCK_MODEL_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LOCK_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "tests/unit/engine/machine/model_world.h"
#include "tests/unit/engine/machine/reference_lock_server.h"

namespace redlatch::engine {

// Clients whose threads acquire a simple lock, all by one machine a client; and what must be so at
// each step.
class LockModel : public ModelWorld {
 public:
  LockModel(uint64_t seed, bool verbose) : ModelWorld(seed, verbose) {
    faulty_ = true;
    forcing_ = Chance(6);
    losing_data_ = Chance(8);
    poking_ = !Chance(8);
    options_ = LocalOptions();
    server_.claim = absl::Milliseconds(100);
    const int count = 1 + Pick(4);
    for (int c = 0; c < count; ++c) {
      AddClient();
      User& user = users_.emplace_back();
      user.reentrant = Chance(3);
      user.port = AddPort(c, {.reentrant = user.reentrant});
      user.threads.resize(static_cast<size_t>(1 + Pick(4)));
    }
  }

  int grants() const { return grants_; }
  int rests() const { return rests_; }
  int again() const { return again_; }  // holds of what their client had kept
  int draws() const { return draws_; }

 protected:
  struct Thread {
    enum class State { kIdle, kWaiting, kHolding, kLost };
    State state = State::kIdle;
    Waiter* waiter = nullptr;
    bool to_poke = false;
    uint64_t hold = 0;
    GrantId grant = 0;
    FencingToken token;       // none: it drew none so far
    std::vector<Face> faces;  // one a level
    Instant deadline;         // the hold's, as it was last seen
  };
  struct Ending {  // a release under way
    uint64_t hold;
    GrantId grant;
    Instant deadline;
  };
  struct User {  // a client, beside its machine
    PortPtr port;
    bool reentrant = false;
    std::vector<Thread> threads;
    std::vector<Ending> endings;
    std::deque<std::pair<Waiter, Waiter::State>> waiters;  // all that ever were, as decided
  };

  ReferenceServer& server() override { return server_; }
  LockMachine& Machine(int c) const { return users_[c].port->lock(); }
  static GrantId GrantOf(int /*c*/, const Thread& thread) { return thread.grant; }

  // ---- Threads.

  void Acquire(int c) {
    User& user = users_[c];
    const int index = Pick(static_cast<int>(user.threads.size()));
    Thread& thread = user.threads[index];
    const bool nested =
        thread.state == Thread::State::kHolding && user.reentrant && thread.faces.size() < 4;
    if (thread.state != Thread::State::kIdle && !nested) return;
    if (!nested && !Chance(4) && TakeAgain(c, thread)) return;
    user.waiters.emplace_back();
    Waiter& waiter = user.waiters.back().first;
    waiter.thread = index + 1;
    waiter.face = Chance(2) ? Face::kStd : Face::kStatus;
    Ask(waiter);
    Say(c, ".", index, " acquires, patience ", static_cast<int>(waiter.patience));
    Effects effects;
    thread.waiter = &waiter;
    if (!nested) thread.state = Thread::State::kWaiting;
    if (Hears(c)) Machine(c).OnHearing();
    Machine(c).Acquire(waiter, Local(c), effects);
    if (nested) {
      // Lost at this very moment, it waits as any other.
      if (waiter.state == Waiter::State::kGranted && waiter.hold == thread.hold) {
        if (thread.token == FencingToken()) OnToken(c, thread, waiter.token);
        thread.faces.push_back(waiter.face);
        user.waiters.back().second = waiter.state;
        thread.waiter = nullptr;
      } else if (waiter.state == Waiter::State::kWaiting) {
        Machine(c).GiveUp(waiter, Waiter::State::kStopped, Local(c), effects);
        user.waiters.back().second = waiter.state;
        thread.waiter = nullptr;
      }
    }
    waiter.parked = waiter.state == Waiter::State::kWaiting;
    Absorb(c, effects);
  }

  uint64_t NumberOf(int c, const Thread& thread) const {
    return static_cast<uint64_t>(&thread - users_[c].threads.data()) + 1;
  }
  // As LockSession::LockAgain() and Leave().
  bool TakeAgain(int c, Thread& thread) {
    const uint64_t id = NumberOf(c, thread);
    if (Hears(c)) Machine(c).OnHearing();
    if (!Machine(c).Retake(id, options_, Local(c))) return false;
    Say(c, ".", id - 1, " takes it again");
    ++again_;
    OnGranted(c, thread, Machine(c).OfThread(id).hold, Face::kStd);
    Check();
    return true;
  }
  bool Leave(int c, Thread& thread) {
    std::shared_ptr<const LockOptions> ended;
    if (!Machine(c).Leave(NumberOf(c, thread), Local(c), ended)) return false;
    Say(c, ".", NumberOf(c, thread) - 1, " leaves it");
    EXPECT_NE(ended, nullptr);
    EXPECT_EQ(thread.state, Thread::State::kHolding);
    EXPECT_EQ(thread.faces, std::vector<Face>{Face::kStd});
    thread.state = Thread::State::kIdle;
    thread.faces.clear();
    ++rests_;
    Check();
    if (!Chance(4)) TakeAgain(c, thread);  // as in a loop
    return true;
  }

  void GiveUp(int c, Thread& thread) {
    if (thread.state != Thread::State::kWaiting) return;
    Effects effects;
    const bool stop = thread.waiter->patience == Patience::kEndless;
    Say(c, " gives up");
    Machine(c).GiveUp(*thread.waiter, stop ? Waiter::State::kStopped : Waiter::State::kBusy,
                      Local(c), effects);
    thread.waiter->parked = false;
    Absorb(c, effects);
  }

  void Poke(int c, Thread& thread) {
    if (thread.state != Thread::State::kWaiting) return;
    thread.to_poke = false;
    Effects effects;
    Say(c, ".", thread.waiter->thread - 1, " looks");
    Machine(c).Poked(*thread.waiter, Local(c), effects);
    Absorb(c, effects);
  }

  static bool HasToRelease(const Thread& thread) {
    return thread.state == Thread::State::kHolding || thread.state == Thread::State::kLost;
  }
  void Release(int c, Thread& thread) {
    if (Chance(4)) Draw(c, thread);
    if (!HasToRelease(thread)) return;
    if (Chance(2)) Draw(c, thread);
    const bool held = thread.state == Thread::State::kHolding;
    if (!held && thread.faces.empty()) {
      thread.state = Thread::State::kIdle;
      return;
    }
    if (Chance(2) && Leave(c, thread)) return;
    const uint64_t id = NumberOf(c, thread);
    const GrantId grant = GrantOf(c, thread);
    const Face face = thread.faces.back();
    const bool outer = thread.faces.size() == 1;
    Effects effects;
    const Released released = face == Face::kStd
                                  ? Machine(c).Unlock(id, Local(c), effects)
                                  : Machine(c).Release(thread.hold, Local(c), effects);
    Say(c, ".", id - 1, " releases: ", static_cast<int>(released.kind));
    if (!held || !effects.losses.empty()) {
      EXPECT_EQ(released.kind, Released::Kind::kLost);
      Absorb(c, effects);
      if (held) std::erase(thread.faces, Face::kStatus);  // lost at this very moment
      if (!held || face == Face::kStd) thread.faces.pop_back();
      if (thread.faces.empty()) thread.state = Thread::State::kIdle;
      return;
    }
    thread.faces.pop_back();
    if (outer) thread.state = Thread::State::kIdle;
    if (released.kind == Released::Kind::kUnderWay) {
      users_[c].endings.push_back({thread.hold, grant, thread.deadline});
    } else {
      EXPECT_EQ(released.kind, Released::Kind::kDone);
      if (outer && Machine(c).holds().empty()) ++rests_;
    }
    Absorb(c, effects);
  }
  void ReleaseAgain(int c) {
    if (users_[c].endings.empty()) return;
    Effects effects;
    Machine(c).Release(users_[c].endings[0].hold, Local(c), effects);
    Absorb(c, effects);
  }

  // ---- What must be so.

  void OnTime() override { Check(); }

  void Absorb(int c, Effects& effects) { Absorb(c, *users_[c].port, effects); }
  void Absorb(int c, Port& /*port*/, Effects& effects) override {
    User& user = users_[c];
    for (Waiter* waiter : effects.wakes) {
      Wake(*waiter);
      user.threads[waiter->thread - 1].to_poke = poking_ || Chance(2);
    }
    for (const Loss& loss : effects.losses) OnLoss(c, loss);
    for (Thread& thread : user.threads) {
      if (thread.state != Thread::State::kWaiting) continue;
      if (thread.waiter->state != Waiter::State::kWaiting) OnDecision(c, thread);
    }
    for (Thread& thread : user.threads) {
      if (thread.state != Thread::State::kHolding) continue;
      thread.deadline = std::max(thread.deadline, Machine(c).Deadline(thread.hold));
    }
    Outcomes(c);
    Check();
  }

  void OnLoss(int c, const Loss& loss) {
    Say(c, ".", loss.hold.thread - 1, " lost: ", loss.reason);
    Thread& thread = users_[c].threads[loss.hold.thread - 1];
    ASSERT_EQ(thread.state, Thread::State::kHolding);
    ASSERT_EQ(thread.hold, loss.hold.id);
    EXPECT_TRUE(loss.hold.view == nullptr || loss.hold.view->Lost(Local(c)).stop_requested());
    const GrantId grant = GrantOf(c, thread);
    EXPECT_TRUE(Local(c) + ExpiryLead(kLongestLease) >= thread.deadline ||
                server_.owner(now_) != grant || server_.forced.contains(grant))
        << "lost for nothing";
    thread.state = Thread::State::kLost;
  }

  void OnDecision(int c, Thread& thread) {
    Waiter& waiter = *thread.waiter;
    EXPECT_FALSE(waiter.parked) << "decided and not woken";
    Say(c, ".", waiter.thread - 1, " decided: ", static_cast<int>(waiter.state), " token ",
        waiter.token.value());
    for (auto& [each, state] : users_[c].waiters) {
      if (&each == &waiter) state = waiter.state;
    }
    thread.waiter = nullptr;
    thread.to_poke = false;
    thread.state = Thread::State::kIdle;
    if (waiter.state != Waiter::State::kGranted) {
      EXPECT_NE(waiter.state, Waiter::State::kDeadlock);
      return;
    }
    OnGranted(c, thread, waiter.hold, waiter.face);
    OnToken(c, thread, waiter.token);
  }
  void OnGranted(int c, Thread& thread, uint64_t hold, Face face) {
    ++grants_;
    thread.state = Thread::State::kHolding;
    thread.hold = hold;
    thread.token = FencingToken();
    thread.grant = Machine(c).grant_id();
    thread.faces = {face};
    thread.deadline = Machine(c).Deadline(hold);
    EXPECT_TRUE(Machine(c).Valid(hold, Local(c)));
  }
  void OnToken(int c, Thread& thread, FencingToken token) {
    thread.token = token;
    if (token == FencingToken() || losing_data_ || server_.forced.contains(thread.grant)) return;
    EXPECT_EQ(server_.HoldOf(clients_[c]->id, token.value()), thread.grant);
    EXPECT_GT(token.value(), last_token_);
    last_token_ = token.value();
  }
  // A thread that took it by lock() asks for its token, after all.
  void Draw(int c, Thread& thread) {
    if (thread.state != Thread::State::kHolding || thread.token != FencingToken()) return;
    const uint64_t id = NumberOf(c, thread);
    const bool valid = Machine(c).Valid(thread.hold, Local(c));
    const auto drawn = Machine(c).Draw(id, Local(c));
    EXPECT_EQ(drawn.has_value(), valid) << "whoever has it can have a token";
    if (drawn) OnToken(c, thread, drawn->token);
    ++draws_;
  }

  void Outcomes(int c) {
    std::erase_if(users_[c].endings, [&](const Ending& ending) {
      const Released outcome = Machine(c).Outcome(ending.hold);
      if (outcome.kind == Released::Kind::kUnderWay) {
        if (!Chance(50)) return false;
        Machine(c).Forget(ending.hold);
        return true;
      }
      Say(c, " release of ", ending.grant, " ended: ", static_cast<int>(outcome.kind));
      if (outcome.kind == Released::Kind::kDone) {
        EXPECT_TRUE(losing_data_ || ghosts_.contains(ending.grant) ||
                    server_.owner(now_) != ending.grant);
        EXPECT_TRUE(server_.released.contains(ending.grant) ||
                    server_.forced.contains(ending.grant));
      } else {
        EXPECT_EQ(outcome.kind, Released::Kind::kLost);
        EXPECT_TRUE(Local(c) >= ending.deadline || server_.forced.contains(ending.grant));
      }
      return true;
    });
  }

  void Check() {
    int valid = 0;
    for (int c = 0; c < clients(); ++c) {
      for (const Thread& thread : users_[c].threads) {
        if (thread.state != Thread::State::kHolding) continue;
        if (!Machine(c).Valid(thread.hold, Local(c))) continue;
        const GrantId grant = GrantOf(c, thread);
        if (server_.forced.contains(grant)) continue;
        ++valid;
        EXPECT_EQ(server_.owner(now_), grant) << "valid, and the server does not know";
      }
    }
    EXPECT_LE(valid, 1);
  }

  bool AnyWaits() const override {
    return std::any_of(users_.begin(), users_.end(), [](const User& user) {
      return std::any_of(user.threads.begin(), user.threads.end(), [](const Thread& thread) {
        return thread.state == Thread::State::kWaiting;
      });
    });
  }

  ReferenceLockServer server_;
  bool forcing_ = false;
  bool losing_data_ = false;
  bool poking_ = true;
  std::vector<User> users_;  // by client
  uint64_t last_token_ = 0;
  int grants_ = 0;
  int rests_ = 0;
  int again_ = 0;
  int draws_ = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LOCK_MODEL_H_
