#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_WORLD_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_WORLD_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"
#include "tests/unit/engine/machine/model_chance.h"

namespace redlatch::engine {

// Clients with any number of machines each, a naive server, and the hostile network between them,
// in virtual time. Chance decides all.
//
// A Server has Caller { client, machine }, Message { client, forced, grant }, Execute(),
// WasBuried(), subscribed (by client id) and messages.
template <class Server>
class ModelWorld : public ModelChance {
 public:
  using ModelChance::ModelChance;
  ModelWorld(const ModelWorld&) = delete;
  ModelWorld& operator=(const ModelWorld&) = delete;
  virtual ~ModelWorld() = default;

 protected:
  // A machine, with what the other parts of its client know of it.
  struct Port {
    Port(const typename Server::Caller& who, const LockMachine::Config& config)
        : caller(who), machine(config) {}
    const typename Server::Caller caller;
    LockMachine machine;
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
  struct Request {
    int client;
    PortPtr port;
    Send send;
    std::optional<Answer> answer;  // executed
    Instant stuck_until;           // on its way, or at a server that does not run
  };

  // What follows from an event at a machine, and whether all is as it must be.
  virtual void Absorb(int c, Port& port, Effects& effects) = 0;
  virtual void OnSend(int /*c*/, const Send& /*send*/) {}
  virtual void OnHeard(const Request& /*request*/, const Answer& /*answer*/) {}
  virtual Answer AtServer(const typename Server::Caller& caller, const Send& send) {
    return server_.Execute(caller, send, now_);
  }
  virtual void OnTime() {}

  Instant Local(int c) const {
    const double passed = static_cast<double>(now_.nanos() - kStart) * clients_[c]->rate;
    return Instant::FromNanos(kStart + static_cast<int64_t>(passed));
  }
  Instant FromLocal(int c, Instant local) const {
    if (local.is_infinite()) return local;
    const double passed = static_cast<double>(local.nanos() - kStart) / clients_[c]->rate;
    return Instant::FromNanos(kStart + static_cast<int64_t>(passed) + 2000);
  }
  void Advance(absl::Duration by) {
    now_ = now_ + by;
    OnTime();
  }

  // ---- Clients.

  void AddClient() {
    auto client = std::make_unique<Client>();
    client->id = static_cast<int>(server_.subscribed.size());
    if (drifting_) client->rate = 0.991 + 0.009 * Pick(3);
    server_.subscribed.push_back(true);
    clients_.push_back(std::move(client));
  }
  // Another takes its place.
  void Replace(int c) {
    Say(c, " dies");
    Forget(*clients_[c]);
    server_.subscribed[clients_[c]->id] = false;
    for (const PortPtr& port : clients_[c]->table) port->dead = true;
    AddClient();
    std::swap(clients_[c], clients_.back());
    clients_.pop_back();
  }
  PortPtr AddPort(int c, LockMachine::Config config) {
    config.numbers = &numbers_;
    config.unreachable_after = absl::Seconds(2);
    return clients_[c]->table.emplace_back(std::make_shared<Port>(
        typename Server::Caller{.client = clients_[c]->id, .machine = ++machines_}, config));
  }
  // As the table does: what nobody refers to.
  void DropPorts(int c) {
    std::erase_if(clients_[c]->table, [](const PortPtr& port) {
      return port.use_count() == 1 && port->machine.idle();
    });
  }
  void Reconnect(int c, bool listens) {
    Forget(*clients_[c]);
    server_.subscribed[clients_[c]->id] = listens;
    Say(c, " reconnects");
    if (!listens) return;
    for (const PortPtr& port : clients_[c]->table) port->machine.OnReconnected(Local(c));
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
      port->machine.Expire(Local(c), effects);
      Absorb(c, *port, effects);
    }
  }

  // ---- The network.

  bool Fetch(int c) {
    const absl::Duration early = Chance(4) ? absl::Milliseconds(20) : absl::ZeroDuration();
    const auto table = clients_[c]->table;
    if (table.empty()) return false;
    const size_t first = static_cast<size_t>(Pick(static_cast<int>(table.size())));
    for (size_t i = 0; i < table.size(); ++i) {
      const PortPtr& port = table[(first + i) % table.size()];
      std::optional<Send> send = port->machine.NextSend(Local(c), early);
      if (send) return SendIt(c, port, *send), true;
      Effects nothing;
      Absorb(c, *port, nothing);  // a debt may have expired
    }
    return false;
  }
  void SendIt(int c, const PortPtr& port, const Send& send) {
    Say(c, "/", port->caller.machine, " sends ", Name(send));
    EXPECT_EQ(send.sent, Local(c));
    if (send.operation == Operation::kAcquire) {
      port->grant = send.grant;
    } else {
      EXPECT_EQ(send.bid.grant, 0U) << "nothing is queued again";
      EXPECT_EQ(send.last_used, send.last_reserved) << "there are no tokens to give back";
    }
    if (send.operation == Operation::kRelease || send.operation == Operation::kCancel) {
      debts_since_.try_emplace(send.grant, now_);
    }
    OnSend(c, send);
    const bool stuck = faulty_ && Chance(16);
    requests_.push_back(
        {c, port, send, {}, stuck ? now_ + absl::Milliseconds(Pick(1000)) : Instant()});
  }

  void Execute(Request& request) {
    now_ = now_ + absl::Microseconds(1);
    // What is executed when its tombstone is over leaves something behind.
    if (server_.WasBuried(request.send.grant, now_)) ghosts_.insert(request.send.grant);
    request.answer = AtServer(request.port->caller, request.send);
    Say("executed for ", request.client, "/", request.port->caller.machine, ": ",
        Name(request.send), " -> ", static_cast<int>(request.answer->kind), "/",
        static_cast<int>(request.answer->bid.kind));
    OnTime();
  }

  void Deliver(size_t index, bool lost) {
    const Request request = requests_[index];
    requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(index));
    if (request.port->dead) return;
    Answer answer;
    if (lost) {
      answer = {.failure = absl::UnavailableError("no answer"),
                .may_have_executed = request.answer.has_value() || Chance(2)};
      // Executed yet. Nothing is executed twice: what was sent is never sent again.
      if (!request.answer && answer.may_have_executed && Chance(2)) {
        late_.push_back(request);
      }
    } else {
      answer = *request.answer;
    }
    Hear(request, answer, lost ? " hears nothing of " : " hears of ");
  }
  // A script that would have to be sent again, and need not be.
  void Drop(size_t index) {
    const Request request = requests_[index];
    requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(index));
    if (request.port->dead) return;
    Hear(request, {.failure = absl::UnavailableError("not sent again")}, " drops ");
  }
  void Hear(const Request& request, const Answer& answer, const char* how) {
    Say(request.client, "/", request.port->caller.machine, how, Name(request.send));
    using Kind = BidAnswer::Kind;
    if (answer.bid.kind == Kind::kGranted || answer.bid.kind == Kind::kQueued) {
      Noticed(request.send.grant);
    }
    const Operation operation = request.send.operation;
    if ((operation == Operation::kRelease || operation == Operation::kCancel) &&
        answer.failure.ok()) {
      debts_since_.erase(request.send.grant);
    }
    OnHeard(request, answer);
    Effects effects;
    LockMachine& machine = request.port->machine;
    machine.OnAnswer(request.send, answer, Local(request.client), effects);
    if (answer.bid.kind == Kind::kQueued && !debts_since_.contains(request.send.grant) &&
        !machine.Wants(request.send) &&
        !machine.Wants({.operation = Operation::kRenew, .grant = request.send.grant})) {
      EXPECT_LE(machine.next_send(), Local(request.client) + ExpiryLead(kLongestLease))
          << request.send.grant << " is queued, and nobody cancels it";
    }
    Absorb(request.client, *request.port, effects);
  }

  void Network() {
    if (requests_.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(requests_.size())));
    const bool faulty = faulty_ && Chance(8);
    Request& request = requests_[index];
    const bool heard = !Chance(3) && (request.port->dead || !StandsStill(request.client));
    if (heard && !request.answer && Chance(10) && !request.port->machine.Wants(request.send)) {
      return Drop(index);
    }
    if (!request.answer && !faulty && now_ < request.stuck_until) return;
    if (!request.answer && !faulty) Execute(request);
    if (!heard || (!request.answer && !faulty)) return;
    Deliver(index, faulty);
  }

  void Late() {
    if (late_.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(late_.size())));
    Request request = late_[index];
    late_.erase(late_.begin() + static_cast<ptrdiff_t>(index));
    if (Chance(4)) return;
    // Prolonged behind its client's back.
    if (request.send.operation == Operation::kRenew) ghosts_.insert(request.send.grant);
    Execute(request);
  }

  void Messages() {
    if (server_.messages.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(server_.messages.size())));
    if (faulty_ && Chance(10)) {
      Say("a message is lost");
      server_.messages.erase(server_.messages.begin() + static_cast<ptrdiff_t>(index));
      return;
    }
    DeliverMessage(index, /*keep=*/faulty_ && Chance(10));
  }
  // As Core::OnMessage().
  void DeliverMessage(size_t index, bool keep) {
    const typename Server::Message message = server_.messages[index];
    int c = 0;
    while (c < std::ssize(clients_) && clients_[c]->id != message.client) ++c;
    if (c < std::ssize(clients_) && StandsStill(c)) return;
    if (!keep) server_.messages.erase(server_.messages.begin() + static_cast<ptrdiff_t>(index));
    if (c == std::ssize(clients_)) return;
    const GrantId grant = message.news.grant;
    Say(c, message.forced ? " hears of force: " : " hears of grant: ", grant, "/",
        message.news.attempt);
    const auto table = clients_[c]->table;
    if (!message.forced) Noticed(grant);
    bool known = message.forced;
    for (const PortPtr& port : table) {
      Effects effects;
      if (message.forced) {
        port->machine.OnForced(grant, Local(c));
      } else if (!known) {
        known = port->machine.OnGrant(message.news, Local(c), effects);
      }
      Absorb(c, *port, effects);
    }
    if (known) return;
    if (table.empty()) {
      ghosts_.insert(grant);
    } else {
      table[0]->machine.OnUnwanted(grant, message.news.claim, 1, Local(c));
    }
  }

  Instant NextTimer() const {
    Instant next = Instant::Infinite();
    for (int c = 0; c < std::ssize(clients_); ++c) {
      for (const PortPtr& port : clients_[c]->table) {
        next = std::min(next, FromLocal(c, port->machine.next_send()));
        next = std::min(next, FromLocal(c, port->machine.next_expiry()));
      }
    }
    return next;
  }

  // Its client knows of that ghost now. Where it already owes an end, that one may be executed yet.
  void Noticed(GrantId grant) {
    if (!debts_since_.contains(grant)) ghosts_.erase(grant);
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

  Server server_;
  std::atomic<uint64_t> numbers_{0};
  int machines_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Request> requests_;
  std::vector<Request> late_;
  std::set<GrantId> ghosts_;  // may be left at the server for a while
  // When a release or cancel was first sent that is not answered.
  std::map<GrantId, Instant> debts_since_;

 private:
  // A connection that breaks: what was on its way to the client is lost.
  void Forget(const Client& client) {
    std::erase_if(server_.messages, [&](const auto& each) { return each.client == client.id; });
  }
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_WORLD_H_
