#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LATCH_MODEL_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LATCH_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "src/engine/machine/latch_machine.h"
#include "tests/unit/engine/machine/model_world.h"
#include "tests/unit/engine/machine/reference_latch_server.h"

namespace redlatch::engine {

// Clients whose threads wait for a latch, all by one machine a client; and what must be so at each
// step.
class LatchModel : public ModelWorld {
 public:
  LatchModel(uint64_t seed, bool verbose) : ModelWorld(seed, verbose) {
    steps_ = 400;
    vanishing_ = Chance(3);
    if (Chance(2)) server_.window = 1 + static_cast<size_t>(Pick(2));
    server_.count = 1 + Pick(12);
    const int count = 1 + Pick(4);
    for (int c = 0; c < count; ++c) {
      AddClient();
      users_.emplace_back();
      Join(c);
    }
  }

  int passed() const { return passed_; }

 protected:
  using Server = ReferenceLatchServer;
  static constexpr int kThreads = 4;

  struct Thread {
    Waiter* waiter = nullptr;  // under way
    bool to_go_on = false;
    bool stopped = false;
  };
  struct User {  // a client, beside its machine
    PortPtr port;
    int incarnation = 0;  // that it waits for
    std::vector<Thread> threads;
    std::deque<Waiter> waiters;
  };

  // The client waits for the latch that there is.
  void Join(int c) {
    server_.incarnation_of.resize(server_.subscribed.size());
    server_.incarnation_of[clients_[c]->id] = server_.incarnation;
    users_[c] = {.port = AddPort<LatchMachine>(
                     c, {.sharing = kLatch, .longest_heartbeat = Server::kLongestHeartbeat}),
                 .incarnation = server_.incarnation,
                 .threads = std::vector<Thread>(kThreads)};
  }
  void Die(int c) {
    Replace(c);
    Join(c);
  }

  // ---- The latch.

  Server& server() override { return server_; }
  void CountDown(bool dies = false) {
    now_ = now_ + absl::Microseconds(1);
    server_.CountDown(1 + Pick(2), now_, dies);
    Say("---- counted down: ", server_.count);
  }
  void Vanish() {
    server_.Vanish(Chance(2), Pick(4));
    Say("---- vanished, and there is another of ", server_.count);
  }

  // ---- Threads.

  void Wait(int c, Thread& thread) {
    if (thread.waiter != nullptr) return;
    User& user = users_[c];
    Waiter& waiter = user.waiters.emplace_back();
    thread = {.waiter = &waiter};
    waiter.thread = static_cast<uint64_t>(&thread - user.threads.data()) + 1;
    waiter.object = &user.threads[Pick(2)];
    waiter.patience = Chance(4) ? static_cast<Patience>(Pick(3)) : Patience::kEndless;
    waiter.began = now_;
    waiter.terms = {.lease = kLease};
    waiter.options = options_;
    Say(c, ".", waiter.thread, " waits, patience ", static_cast<int>(waiter.patience));
    Effects effects;
    user.port->machine->Acquire(waiter, Local(c), effects);
    waiter.parked = waiter.state == Waiter::State::kWaiting;
    Absorb(c, *user.port, effects);
  }

  // A thread that was woken, or is `early`.
  void GoOn(int c, Thread& thread, bool early) {
    if (thread.waiter == nullptr || (!thread.to_go_on && !early)) return;
    thread.to_go_on = false;
    Effects effects;
    users_[c].port->machine->Poked(*thread.waiter, Local(c), effects);
    Absorb(c, *users_[c].port, effects);
  }

  void GiveUp(int c, Thread& thread) {
    if (thread.waiter == nullptr) return;
    Say(c, ".", thread.waiter->thread, " gives up");
    const bool stop = thread.waiter->patience == Patience::kEndless;
    thread.stopped |= stop;
    thread.waiter->parked = false;
    Effects effects;
    users_[c].port->machine->GiveUp(
        *thread.waiter, stop ? Waiter::State::kStopped : Waiter::State::kBusy, Local(c), effects);
    Absorb(c, *users_[c].port, effects);
  }

  // A latch object goes.
  void StopAll(int c) {
    User& user = users_[c];
    const void* const object = &user.threads[Pick(2)];
    Say(c, " stops all");
    for (Thread& thread : user.threads) {
      thread.stopped |= thread.waiter != nullptr && thread.waiter->object == object;
    }
    Effects effects;
    user.port->machine->StopAll(object, Local(c), effects);
    Absorb(c, *user.port, effects);
    for (const Thread& thread : user.threads) EXPECT_FALSE(thread.waiter && thread.stopped);
  }

  // ---- What must be so.

  void OnSend(int /*c*/, const Send& send) override {
    EXPECT_TRUE(std::holds_alternative<ToAcquire>(send.what) ||
                std::holds_alternative<ToCancel>(send.what))
        << "there is nothing to renew or release";
  }

  void Absorb(int c, Port& port, Effects& effects) override {
    EXPECT_TRUE(effects.losses.empty());
    EXPECT_TRUE(effects.notices.empty());
    EXPECT_TRUE(port.machine->next_expiry().is_infinite());
    User& user = users_[c];
    for (Waiter* waiter : effects.wakes) {
      Wake(*waiter);
      user.threads[waiter->thread - 1].to_go_on = true;
    }
    for (Waiter* waiter : effects.through) {
      EXPECT_EQ(waiter->state, Waiter::State::kGranted);
      Wake(*waiter);
    }
    bool all = false;
    for (Thread& thread : user.threads) {
      if (thread.waiter == nullptr || thread.waiter->state == Waiter::State::kWaiting) continue;
      all |= EndsAll(*thread.waiter);
      Decided(c, thread);
    }
    for (const Thread& thread : user.threads) {
      EXPECT_FALSE(all && thread.waiter != nullptr) << thread.waiter->thread << " is left behind";
    }
  }
  // What is so for one waiter of a client is so for all.
  static bool EndsAll(const Waiter& waiter) {
    return waiter.state == Waiter::State::kGranted || absl::IsAborted(waiter.failure);
  }

  void Decided(int c, Thread& thread) {
    const Waiter& waiter = *thread.waiter;
    Say(c, ".", waiter.thread, " decided: ", static_cast<int>(waiter.state), " ",
        waiter.failure.ToString());
    EXPECT_FALSE(waiter.parked) << "decided and not woken";
    const bool stopped = thread.stopped;
    const int incarnation = users_[c].incarnation;
    thread = {};
    switch (waiter.state) {
      case Waiter::State::kGranted:
        ++passed_;
        EXPECT_TRUE(server_.opened.contains(incarnation)) << "let through a closed latch";
        EXPECT_EQ(waiter.hold, 0U);
        EXPECT_EQ(waiter.token, FencingToken());
        break;
      case Waiter::State::kBusy:
        EXPECT_NE(waiter.patience, Patience::kEndless);
        break;
      case Waiter::State::kStopped:
        EXPECT_TRUE(stopped);
        break;
      case Waiter::State::kFailed:
        EXPECT_TRUE(absl::IsUnavailable(waiter.failure) || server_.vanished.contains(incarnation))
            << waiter.failure;
        EXPECT_TRUE(absl::IsUnavailable(waiter.failure) || absl::IsAborted(waiter.failure))
            << waiter.failure;
        break;
      default:
        ADD_FAILURE() << static_cast<int>(waiter.state);
    }
  }

  bool Waits(int c) const {
    return std::any_of(users_[c].threads.begin(), users_[c].threads.end(),
                       [](const Thread& thread) { return thread.waiter != nullptr; });
  }
  bool AnyWaits() const override {
    for (int c = 0; c < clients(); ++c) {
      if (Waits(c)) return true;
    }
    return false;
  }

  // All clients that wait are known to the server.
  bool AllAreQueued() {
    std::set<GrantId> known;
    for (const auto& [grant, client] : server_.Known(now_)) known.insert(grant);
    for (int c = 0; c < clients(); ++c) {
      if (Waits(c) && !known.contains(users_[c].port->grant)) return false;
    }
    return true;
  }
  bool OnlyGhostsWait() {
    const auto known = server_.Known(now_);
    return std::all_of(known.begin(), known.end(),
                       [&](const auto& each) { return IsGhost(each.first, each.second); });
  }

  static constexpr absl::Duration kLease = absl::Milliseconds(300);
  Server server_;
  bool vanishing_ = false;
  std::vector<User> users_;  // by client
  int passed_ = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_LATCH_MODEL_H_
