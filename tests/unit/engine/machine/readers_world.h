#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_WORLD_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_WORLD_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "tests/unit/engine/machine/model_world.h"
#include "tests/unit/engine/machine/reference_read_write_server.h"

namespace redlatch::engine {

// Clients whose threads read and write, each with a machine for writing and, as Readers has it, one
// for each group of readers; and what must be so at each step.
class ReadersWorld : public ModelWorld {
 public:
  ReadersWorld(uint64_t seed, bool verbose) : ModelWorld(seed, verbose) {
    repeating_ = true;
    server_.claim = absl::Milliseconds(100);
    const int count = 2 + Pick(2);
    const int fair = Pick(3);  // none, some, all
    options_ = LocalOptions();
    for (int c = 0; c < count; ++c) {
      AddClient();
      users_.emplace_back();
      Join(c, fair == 2 || (fair == 1 && Chance(2)));
    }
  }

  int reads() const { return reads_; }
  int writes() const { return writes_; }
  int again() const { return again_; }  // reads of what their client had kept

 protected:
  using Server = ReferenceReadWriteServer;
  using Side = Server::Side;
  static constexpr int kThreads = 3;

  struct Tenancy {  // of a thread: a hold, until its last level is released
    PortPtr group;
    uint64_t hold = 0;
    FencingToken token;
    std::vector<Face> faces;  // one a level
    Instant deadline;         // as it was last seen
    bool lost = false;
  };
  struct Thread {
    uint64_t id = 0;
    std::optional<Tenancy> write, read;
    // An acquisition under way.
    Waiter* waiter = nullptr;
    PortPtr at;
    bool nested = false;  // it reads under its own write
    uint64_t asked = 0;
    bool to_go_on = false;
  };
  struct Ending {  // a release under way
    PortPtr group;
    uint64_t hold;
    Instant deadline;
  };
  struct User {  // what a client has beside its machines
    bool fair = false;
    PortPtr exclusive;
    std::vector<PortPtr> groups;  // of readers
    PortPtr latest;
    std::vector<Thread> threads;
    std::vector<Ending> endings;
    std::deque<Waiter> waiters;
  };

  Server& server() override { return server_; }

  // ---- Clients.

  void Join(int c, bool fair) {
    User& user = users_[c] = {.fair = fair};
    user.exclusive = MakeGroup(c, Side::kWrite);
    for (int i = 1; i <= kThreads; ++i) user.threads.push_back({.id = static_cast<uint64_t>(i)});
  }
  void Die(int c) {
    Replace(c);
    Join(c, users_[c].fair);
  }
  PortPtr MakeGroup(int c, Side side, GrantId under = 0) {
    return AddPort(c,
                   {.reentrant = true,
                    .sharing = side == Side::kWrite ? kExclusive : kReaders,
                    .longest_heartbeat = Server::kLongestHeartbeat},
                   {.side = side, .fair = users_[c].fair, .under = under});
  }
  // As Readers does.
  PortPtr Found(int c, Side side, GrantId under = 0) {
    User& user = users_[c];
    std::erase_if(user.groups, [&](const PortPtr& group) {
      const bool used =
          std::any_of(user.threads.begin(), user.threads.end(), [&](const Thread& thread) {
            return thread.at == group || (thread.read && thread.read->group == group);
          });
      return group != user.latest && !used && group->lock().holds().empty();
    });
    DropPorts(c);
    return user.groups.emplace_back(MakeGroup(c, side, under));
  }

  // ---- What must be so.

  void OnTime() override { Check(); }

  void Absorb(int c, Port& group, Effects& effects) override {
    for (Waiter* waiter : effects.wakes) {
      Wake(*waiter);
      users_[c].threads[waiter->thread - 1].to_go_on = true;
    }
    for (const Loss& loss : effects.losses) OnLoss(c, group, loss);
    for (Thread& thread : users_[c].threads) {
      if (thread.waiter != nullptr && thread.waiter->state != Waiter::State::kWaiting) {
        OnDecision(c, thread);
      }
      for (std::optional<Tenancy>* tenancy : {&thread.write, &thread.read}) {
        if (!*tenancy || (*tenancy)->lost) continue;
        (*tenancy)->deadline =
            std::max((*tenancy)->deadline, (*tenancy)->group->lock().Deadline((*tenancy)->hold));
      }
    }
    Outcomes(c);
    Check();
  }

  void OnLoss(int c, const Port& group, const Loss& loss) {
    Say(c, ".", loss.hold.thread, " lost: ", loss.reason);
    Thread& thread = users_[c].threads[loss.hold.thread - 1];
    std::optional<Tenancy>& tenancy =
        group.caller.side == Side::kWrite ? thread.write : thread.read;
    ASSERT_TRUE(tenancy.has_value());
    ASSERT_EQ(tenancy->hold, loss.hold.id);
    EXPECT_TRUE(loss.hold.view == nullptr || loss.hold.view->Lost(Local(c)).stop_requested());
    EXPECT_TRUE(Local(c) + ExpiryLead(kLongestLease) >= tenancy->deadline ||
                !server_.Has(group.caller.machine, now_))
        << "lost for nothing";
    tenancy->lost = true;
  }

  // A thread's own token, at once or when it asks for it.
  void OnToken(Thread& thread, FencingToken token) {
    thread.write->token = token;
    if (token == FencingToken()) return;
    EXPECT_GT(token.value(), last_token_);
    last_token_ = token.value();
  }

  void OnDecision(int c, Thread& thread) {
    const Waiter& waiter = *thread.waiter;
    EXPECT_FALSE(waiter.parked) << "decided and not woken";
    if (waiter.state == Waiter::State::kElsewhere) {
      thread.to_go_on = true;
      return;
    }
    Say(c, ".", thread.id, " decided: ", static_cast<int>(waiter.state), " token ",
        waiter.token.value());
    const PortPtr group = thread.at;
    const bool nested = thread.nested;
    Ended(thread);
    EXPECT_NE(waiter.state, Waiter::State::kDeadlock);
    if (waiter.state != Waiter::State::kGranted) return;
    EXPECT_TRUE(group->lock().Valid(waiter.hold, Local(c)));
    const bool writes = group->caller.side == Side::kWrite;
    std::optional<Tenancy>& tenancy = writes ? thread.write : thread.read;
    if (writes && tenancy) {
      EXPECT_EQ(waiter.hold, tenancy->hold);
      tenancy->faces.push_back(waiter.face);
      if (waiter.token != tenancy->token) OnToken(thread, waiter.token);
      return;
    }
    ASSERT_FALSE(tenancy.has_value() && !tenancy->lost);
    tenancy = Tenancy{
        group, waiter.hold, waiter.token, {waiter.face}, group->lock().Deadline(waiter.hold)};
    ++(writes ? writes_ : reads_);
    if (writes) return OnToken(thread, waiter.token);
    if (nested) {
      if (IsValid(c, thread.write)) {
        EXPECT_EQ(waiter.token, thread.write->token);
      }
    } else {
      EXPECT_GE(waiter.token.value(), last_token_) << "older than the last write";
      EXPECT_FALSE(options_->local_window == absl::ZeroDuration() &&
                   options_->keep == absl::ZeroDuration() &&
                   server_.PassedWriter(group->lock().grant_id(), thread.asked))
          << "came after a writer and got in before it";
    }
  }

  static void Ended(Thread& thread) {
    thread.waiter = nullptr;
    thread.at = nullptr;
    thread.to_go_on = false;
  }

  void Outcomes(int c) {
    std::erase_if(users_[c].endings, [&](const Ending& ending) {
      LockMachine& machine = ending.group->lock();
      const Released outcome = machine.Outcome(ending.hold);
      if (outcome.kind == Released::Kind::kUnderWay) {
        if (!Chance(50)) return false;
        machine.Forget(ending.hold);
        return true;
      }
      if (outcome.kind != Released::Kind::kDone) {
        EXPECT_EQ(outcome.kind, Released::Kind::kLost);
        EXPECT_GE(Local(c), ending.deadline);
      }
      return true;
    });
  }

  void Check() {
    const Thread* writer = nullptr;
    int writers = 0;
    int others = 0;
    for (int c = 0; c < clients(); ++c) {
      for (const Thread& thread : users_[c].threads) {
        if (!IsValid(c, thread.write)) continue;
        ++writers;
        writer = &thread;
      }
    }
    for (int c = 0; c < clients() && writer != nullptr; ++c) {
      for (const Thread& thread : users_[c].threads) {
        if (&thread == writer || !IsValid(c, thread.read)) continue;
        ++others;
      }
    }
    EXPECT_LE(writers, 1);
    EXPECT_EQ(others, 0) << "a thread reads as another writes";
  }
  bool IsValid(int c, const std::optional<Tenancy>& tenancy) const {
    if (!tenancy || tenancy->lost) return false;
    if (!tenancy->group->lock().Valid(tenancy->hold, Local(c))) return false;
    EXPECT_TRUE(server_.Has(tenancy->group->caller.machine, now_))
        << "valid, and the server does not know";
    return true;
  }

  bool AnyWaits() const override {
    return std::any_of(users_.begin(), users_.end(), [](const User& user) {
      return std::any_of(user.threads.begin(), user.threads.end(),
                         [](const Thread& thread) { return thread.waiter != nullptr; });
    });
  }
  Server server_;
  std::vector<User> users_;  // by client
  uint64_t last_token_ = 0;
  int reads_ = 0;
  int writes_ = 0;
  int again_ = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_WORLD_H_
