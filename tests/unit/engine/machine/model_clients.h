#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_CLIENTS_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_CLIENTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "src/engine/machine/lock_machine.h"
#include "tests/unit/engine/machine/model_chance.h"
#include "tests/unit/engine/machine/reference_server.h"

namespace redlatch::engine {

// Clients of a server, with any number of machines each and a clock of their own, which come, die,
// reconnect and stand still.
class ModelClients : public ModelChance {
 public:
  using ModelChance::ModelChance;
  ModelClients(const ModelClients&) = delete;
  ModelClients& operator=(const ModelClients&) = delete;
  virtual ~ModelClients() = default;

 protected:
  using Caller = ReferenceServer::Caller;

  bool Hears(int c) { return server().subscribed[clients_[c]->id]; }

  // A machine, with what the other parts of its client know of it.
  struct Port {
    Port(const Caller& who, std::unique_ptr<Bidder> with) : caller(who), machine(std::move(with)) {}
    // In all models but the latches'.
    LockMachine& lock() const { return static_cast<LockMachine&>(*machine); }
    const Caller caller;
    const std::unique_ptr<Bidder> machine;
    GrantId grant = 0;  // that it asked for last
    bool dead = false;
  };
  using PortPtr = std::shared_ptr<Port>;
  struct Client {
    int id = 0;
    double rate = 1;
    Instant stands_still_until;
    std::vector<PortPtr> table;
  };

  virtual ReferenceServer& server() = 0;
  // What follows from an event at a machine, and whether all is as it must be.
  virtual void Absorb(int c, Port& port, Effects& effects) = 0;
  virtual void OnTime() {}

  int clients() const { return static_cast<int>(clients_.size()); }
  Instant Local(int c) const {
    const double passed = static_cast<double>(now_.nanos() - kStart) * clients_[c]->rate;
    return Instant::FromNanos(kStart + static_cast<int64_t>(passed));
  }
  Instant FromLocal(int c, Instant local) const {
    if (local.is_infinite()) return local;
    const double passed = static_cast<double>(local.nanos() - kStart) / clients_[c]->rate;
    return Instant::FromNanos(kStart + static_cast<int64_t>(passed) + 2000);
  }

  void AddClient() {
    auto client = std::make_unique<Client>();
    client->id = static_cast<int>(server().subscribed.size());
    if (drifting_) client->rate = 0.991 + 0.009 * Pick(3);
    server().subscribed.push_back(true);
    clients_.push_back(std::move(client));
  }
  // Another takes its place.
  void Replace(int c) {
    Say(c, " dies");
    Forget(*clients_[c]);
    server().subscribed[clients_[c]->id] = false;
    for (const PortPtr& port : clients_[c]->table) port->dead = true;
    AddClient();
    std::swap(clients_[c], clients_.back());
    clients_.pop_back();
  }
  template <class Machine = LockMachine>
  PortPtr AddPort(int c, Bidder::Config config, Caller caller = {}) {
    config.numbers = &numbers_;
    config.unreachable_after = absl::Seconds(2);
    caller.client = clients_[c]->id;
    caller.machine = ++machines_;
    return clients_[c]->table.emplace_back(
        std::make_shared<Port>(caller, std::make_unique<Machine>(config)));
  }
  // As the table does: what nobody refers to.
  void DropPorts(int c) {
    std::erase_if(clients_[c]->table, [](const PortPtr& port) {
      return port.use_count() == 1 && port->machine->idle();
    });
  }
  void Reconnect(int c, bool listens) {
    Forget(*clients_[c]);
    server().subscribed[clients_[c]->id] = listens;
    Say(c, " reconnects");
    for (const PortPtr& port : clients_[c]->table) port->machine->OnDeaf(Local(c));
    if (!listens) return;
    for (const PortPtr& port : clients_[c]->table) port->machine->OnReconnected(Local(c));
  }
  void StandStill(int c, absl::Duration how_long) {
    Say(c, " stands still for ", absl::FormatDuration(how_long));
    clients_[c]->stands_still_until = now_ + how_long;
  }
  bool StandsStill(int c) const { return now_ < clients_[c]->stands_still_until; }

  void Expire(int c) {
    const auto table = clients_[c]->table;
    for (const PortPtr& port : table) {
      Effects effects;
      port->machine->Expire(Local(c), effects);
      Absorb(c, *port, effects);
    }
  }

  // ---- Threads.

  static constexpr absl::Duration kShortLease = absl::Milliseconds(300);

  // How a lock passes on inside its client.
  std::shared_ptr<const LockOptions> LocalOptions() {
    auto options = std::make_shared<LockOptions>(LockOptions{.lease = kShortLease});
    options->local_window = absl::Milliseconds(std::vector<int>{0, 5, 200}[Pick(3)]);
    options->local_retakes = std::vector<int>{0, 2, 16}[Pick(3)];
    options->keep = absl::Milliseconds(std::vector<int>{0, 0, 50, 250}[Pick(4)]);
    options->turn = absl::Milliseconds(std::vector<int>{0, 0, 2, 80}[Pick(4)]);
    return options;
  }

  // A request for a lock, by chance; only its thread is for the caller to set.
  void Ask(Waiter& waiter) {
    waiter.patience = static_cast<Patience>(Pick(3));
    waiter.began = now_;
    waiter.terms = {.lease = kShortLease};
    if (Chance(8)) waiter.terms = {.lease = kLongestLease, .manual = Chance(2)};
    waiter.options = options_;
    waiter.terms.stays = options_->keep > absl::ZeroDuration() && !waiter.terms.manual;
    waiter.object = this;
  }

  // The thread of a waiter is woken.
  static void Wake(Waiter& waiter) {
    EXPECT_TRUE(waiter.wake_pending);
    waiter.wake_pending = false;
    if (waiter.state != Waiter::State::kWaiting) waiter.parked = false;
  }

  // ---- Time.

  void Advance(absl::Duration by) {
    now_ = now_ + by;
    OnTime();
  }
  // Time passes: by chance, some microseconds, or up to `most` milliseconds.
  void Pass(int most = 150) {
    Advance(Chance(fast_ ? 2 : 8) ? absl::Milliseconds(Pick(most))
                                  : absl::Microseconds(Pick(3000)));
  }
  virtual Instant NextTimer() const {
    Instant next = Instant::Infinite();
    for (int c = 0; c < clients(); ++c) {
      for (const PortPtr& port : clients_[c]->table) {
        next = std::min(next, FromLocal(c, port->machine->next_send()));
        next = std::min(next, FromLocal(c, port->machine->next_expiry()));
      }
    }
    return next;
  }
  void AwaitTimer() { Advance(std::max(NextTimer() - now_, absl::Microseconds(1))); }

  // ---- Ghosts: what may be at the server though no client knows of it.

  // Its client knows of that ghost now. Where it already owes an end, that one may be executed yet.
  void Noticed(GrantId grant) {
    if (!debts_since_.contains(grant)) ghosts_.erase(grant);
  }
  bool IsGhost(GrantId grant, int owner) const {
    if (ghosts_.contains(grant)) return true;
    if (std::none_of(clients_.begin(), clients_.end(),
                     [&](const auto& client) { return client->id == owner; })) {
      return true;  // a dead client's
    }
    const auto owed = debts_since_.find(grant);  // and perhaps never answered
    return owed != debts_since_.end() && owed->second + absl::Milliseconds(290) <= now_;
  }

  std::shared_ptr<const LockOptions> options_ = std::make_shared<LockOptions>();
  base::Numbers numbers_{{1, 2}};
  int machines_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::set<GrantId> ghosts_;  // for a while
  // When a release or cancel was first sent that is not answered.
  std::map<GrantId, Instant> debts_since_;

 private:
  // A connection that breaks: what was on its way to the client is lost.
  void Forget(const Client& client) {
    std::erase_if(server().messages, [&](const auto& each) { return each.client == client.id; });
  }
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_CLIENTS_H_
