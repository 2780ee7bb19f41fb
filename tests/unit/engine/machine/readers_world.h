#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_WORLD_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_WORLD_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/engine/machine/lock_machine.h"
#include "tests/unit/engine/machine/reference_read_write_server.h"

namespace redlatch::engine {

// Clients whose threads read and write, each with a machine for writing and, as Readers has it, one
// for each group of readers; and what must be so at each step.
class ReadersWorld {
 public:
  using Instant = base::Instant;

  ReadersWorld(uint64_t seed, bool verbose) : verbose_(verbose), random_(seed) {
    clients_count_ = 2 + Pick(2);
    faulty_ = !Chance(5);
    fast_ = Chance(3);
    const bool drift = Chance(3);
    const int fair = Pick(3);  // none, some, all
    auto options = std::make_shared<LockOptions>();
    options->local_window = absl::Milliseconds(std::vector<int>{0, 5, 200}[Pick(3)]);
    options->local_retakes = std::vector<int>{0, 2, 16}[Pick(3)];
    options_ = options;
    for (int c = 0; c < clients_count_; ++c) {
      clients_.push_back(MakeClient(fair == 2 || (fair == 1 && Chance(2))));
      if (drift) clients_.back()->rate = 0.996 + 0.004 * Pick(3);
    }
  }

  bool failed() const { return ::testing::Test::HasFailure(); }
  int events() const { return events_; }
  int reads() const { return reads_; }
  int writes() const { return writes_; }

 protected:
  using Server = ReferenceReadWriteServer;
  using Side = Server::Side;
  static constexpr int64_t kStart = 1'000'000'000'000'000;
  static constexpr absl::Duration kLongestLease = absl::Seconds(1);
  static constexpr absl::Duration kClaim = absl::Milliseconds(100);
  static constexpr int kThreads = 3;

  // A machine, with what its client's other parts know of it.
  struct Group {
    Group(const Server::Caller& who, const LockMachine::Config& config)
        : caller(who), machine(config) {}
    const Server::Caller caller;
    LockMachine machine;
    bool dead = false;
  };
  using GroupPtr = std::shared_ptr<Group>;
  struct Tenancy {  // of a thread: a hold, until its last level is released
    GroupPtr group;
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
    GroupPtr at;
    bool nested = false;  // it reads under its own write
    uint64_t asked = 0;
    bool to_go_on = false;
  };
  struct Ending {  // a release under way
    GroupPtr group;
    uint64_t hold;
    Instant deadline;
  };
  struct Client {
    int id = 0;
    bool fair = false;
    double rate = 1;
    GroupPtr exclusive;
    std::vector<GroupPtr> groups;  // of readers
    GroupPtr latest;
    std::vector<GroupPtr> table;  // all that have something to do
    std::vector<Thread> threads;
    std::vector<Ending> endings;
    std::deque<Waiter> waiters;
  };
  struct Request {
    int client;
    GroupPtr group;
    Send send;
    std::optional<Answer> answer;  // executed
  };

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int n) { return Pick(n) == 0; }

  Instant Local(int c) const {
    const double passed = static_cast<double>(now_.nanos() - kStart) * clients_[c]->rate;
    return Instant::FromNanos(kStart + static_cast<int64_t>(passed));
  }
  Instant FromLocal(int c, Instant local) const {
    if (local.is_infinite()) return local;
    const double passed = static_cast<double>(local.nanos() - kStart) / clients_[c]->rate;
    return Instant::FromNanos(kStart + static_cast<int64_t>(passed) + 2000);
  }
  template <typename... Args>
  void Say(const Args&... args) {
    ++events_;
    if (verbose_) {
      std::cerr << absl::StrCat((now_.nanos() - kStart) / 1000, " us: ", args...) << "\n";
    }
  }

  // ---- Clients.

  std::unique_ptr<Client> MakeClient(bool fair) {
    auto client = std::make_unique<Client>();
    client->id = static_cast<int>(server_.subscribed.size());
    client->fair = fair;
    server_.subscribed.push_back(true);
    client->exclusive = MakeGroup(*client, Side::kWrite);
    for (int i = 1; i <= kThreads; ++i) client->threads.push_back({.id = static_cast<uint64_t>(i)});
    return client;
  }
  GroupPtr MakeGroup(Client& client, Side side, GrantId under = 0) {
    auto group = std::make_shared<Group>(
        Server::Caller{.client = client.id,
                       .machine = ++machines_,
                       .side = side,
                       .fair = client.fair,
                       .under = under},
        LockMachine::Config{.reentrant = true,
                            .sharing = side == Side::kWrite ? kExclusive : kReaders,
                            .longest_heartbeat = Server::kLongestHeartbeat,
                            .unreachable_after = absl::Seconds(2),
                            .numbers = &numbers_});
    client.table.push_back(group);
    return group;
  }
  // As Readers does.
  GroupPtr Found(Client& client, Side side, GrantId under = 0) {
    std::erase_if(client.groups, [&](const GroupPtr& group) {
      const bool used =
          std::any_of(client.threads.begin(), client.threads.end(), [&](const Thread& thread) {
            return thread.at == group || (thread.read && thread.read->group == group);
          });
      return group != client.latest && !used && group->machine.holds().empty();
    });
    // As the table does: what nobody refers to.
    std::erase_if(client.table, [](const GroupPtr& group) {
      return group.use_count() == 1 && group->machine.idle();
    });
    return client.groups.emplace_back(MakeGroup(client, side, under));
  }
  void Die(int c) {
    Say(c, " dies");
    Client& client = *clients_[c];
    server_.subscribed[client.id] = false;
    std::erase_if(server_.messages, [&](const auto& each) { return each.client == client.id; });
    for (const GroupPtr& group : client.table) group->dead = true;
    const double rate = client.rate;
    graveyard_.push_back(std::move(clients_[c]));
    clients_[c] = MakeClient(graveyard_.back()->fair);
    clients_[c]->rate = rate;
  }
  void Reconnect(int c, bool listens) {
    const Client& client = *clients_[c];
    std::erase_if(server_.messages, [&](const auto& each) { return each.client == client.id; });
    server_.subscribed[client.id] = listens;
    Say(c, " reconnects");
    if (!listens) return;
    for (const GroupPtr& group : client.table) group->machine.OnReconnected(Local(c));
  }

  // ---- What must be so.

  void Absorb(int c, Group& group, Effects& effects) {
    Client& client = *clients_[c];
    for (Waiter* waiter : effects.wakes) {
      EXPECT_TRUE(waiter->wake_pending);
      waiter->wake_pending = false;
      if (waiter->state != Waiter::State::kWaiting) waiter->parked = false;
      client.threads[waiter->thread - 1].to_go_on = true;
    }
    for (const Loss& loss : effects.losses) OnLoss(c, group, loss);
    for (Thread& thread : client.threads) {
      if (thread.waiter != nullptr && thread.waiter->state != Waiter::State::kWaiting) {
        OnDecision(c, thread);
      }
      for (std::optional<Tenancy>* tenancy : {&thread.write, &thread.read}) {
        if (!*tenancy || (*tenancy)->lost) continue;
        (*tenancy)->deadline =
            std::max((*tenancy)->deadline, (*tenancy)->group->machine.Deadline((*tenancy)->hold));
      }
    }
    Outcomes(c);
    Check();
  }

  void OnLoss(int c, Group& group, const Loss& loss) {
    Say(c, ".", loss.hold.thread, " lost: ", loss.reason);
    Thread& thread = clients_[c]->threads[loss.hold.thread - 1];
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

  void OnDecision(int c, Thread& thread) {
    const Waiter& waiter = *thread.waiter;
    EXPECT_FALSE(waiter.parked) << "decided and not woken";
    if (waiter.state == Waiter::State::kElsewhere) {
      thread.to_go_on = true;
      return;
    }
    Say(c, ".", thread.id, " decided: ", static_cast<int>(waiter.state), " token ",
        waiter.token.value());
    const GroupPtr group = thread.at;
    const bool nested = thread.nested;
    Ended(thread);
    EXPECT_NE(waiter.state, Waiter::State::kDeadlock);
    if (waiter.state != Waiter::State::kGranted) return;
    EXPECT_TRUE(group->machine.Valid(waiter.hold, Local(c)));
    const bool writes = group->caller.side == Side::kWrite;
    std::optional<Tenancy>& tenancy = writes ? thread.write : thread.read;
    if (writes && tenancy) {
      EXPECT_EQ(waiter.hold, tenancy->hold);
      tenancy->faces.push_back(waiter.face);
      return;
    }
    ASSERT_FALSE(tenancy.has_value() && !tenancy->lost);
    tenancy = Tenancy{
        group, waiter.hold, waiter.token, {waiter.face}, group->machine.Deadline(waiter.hold)};
    ++(writes ? writes_ : reads_);
    if (writes) {
      EXPECT_GT(waiter.token.value(), last_token_);
      last_token_ = waiter.token.value();
      return;
    }
    if (nested) {
      if (IsValid(c, thread.write)) {
        EXPECT_EQ(waiter.token, thread.write->token);
      }
    } else {
      EXPECT_GE(waiter.token.value(), last_token_) << "older than the last write";
      EXPECT_FALSE(options_->local_window == absl::ZeroDuration() &&
                   server_.PassedWriter(group->machine.grant(), thread.asked))
          << "came after a writer and got in before it";
    }
  }

  static void Ended(Thread& thread) {
    thread.waiter = nullptr;
    thread.at = nullptr;
    thread.to_go_on = false;
  }

  void Outcomes(int c) {
    std::erase_if(clients_[c]->endings, [&](const Ending& ending) {
      LockMachine& machine = ending.group->machine;
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
    for (int c = 0; c < clients_count_; ++c) {
      for (const Thread& thread : clients_[c]->threads) {
        if (!IsValid(c, thread.write)) continue;
        ++writers;
        writer = &thread;
      }
    }
    for (int c = 0; c < clients_count_ && writer != nullptr; ++c) {
      for (const Thread& thread : clients_[c]->threads) {
        if (&thread == writer || !IsValid(c, thread.read)) continue;
        ++others;
      }
    }
    EXPECT_LE(writers, 1);
    EXPECT_EQ(others, 0) << "a thread reads as another writes";
  }
  bool IsValid(int c, const std::optional<Tenancy>& tenancy) const {
    if (!tenancy || tenancy->lost) return false;
    if (!tenancy->group->machine.Valid(tenancy->hold, Local(c))) return false;
    EXPECT_TRUE(server_.Has(tenancy->group->caller.machine, now_))
        << "valid, and the server does not know";
    return true;
  }

  void Advance(absl::Duration by) {
    now_ = now_ + by;
    Check();
  }

  Instant NextTimer() const {
    Instant next = Instant::Infinite();
    for (int c = 0; c < clients_count_; ++c) {
      for (const GroupPtr& group : clients_[c]->table) {
        next = std::min(next, FromLocal(c, group->machine.next_send()));
        next = std::min(next, FromLocal(c, group->machine.next_expiry()));
      }
    }
    return next;
  }
  bool AnyWaits() const {
    for (const auto& client : clients_) {
      for (const Thread& thread : client->threads) {
        if (thread.waiter != nullptr) return true;
      }
    }
    return false;
  }
  // What may be at the server though no client knows of it.
  bool IsGhost(GrantId grant, int owner) const {
    if (ghosts_.contains(grant)) return true;
    if (std::none_of(clients_.begin(), clients_.end(),
                     [&](const auto& client) { return client->id == owner; })) {
      return true;  // a dead client's
    }
    const auto owed = debts_since_.find(grant);  // and perhaps never answered
    return owed != debts_since_.end() && owed->second + absl::Milliseconds(290) <= now_;
  }

  const bool verbose_;
  std::mt19937_64 random_;
  int clients_count_ = 0;
  Server server_{kClaim};
  Instant now_ = Instant::FromNanos(kStart);
  bool faulty_ = false;
  bool fast_ = false;  // time passes
  std::atomic<uint64_t> numbers_{0};
  int machines_ = 0;
  std::shared_ptr<const LockOptions> options_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<Client>> graveyard_;
  std::vector<Request> requests_;
  std::vector<Request> late_;
  std::set<GrantId> ghosts_;                // may be left at the server for a while
  std::map<GrantId, Instant> debts_since_;  // when a release or cancel was first sent
  uint64_t last_token_ = 0;
  int events_ = 0;
  int reads_ = 0;
  int writes_ = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_WORLD_H_
