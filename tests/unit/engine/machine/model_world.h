#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_WORLD_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_WORLD_H_

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "src/engine/machine/timing.h"
#include "tests/unit/engine/machine/model_clients.h"
#include "tests/unit/engine/machine/script_values.h"

namespace redlatch::engine {

// Clients, a naive server, and the hostile network between them, in virtual time. Chance decides
// all; what threads do, and what must be so, is said by the model of each primitive.
class ModelWorld : public ModelClients {
 public:
  using ModelClients::ModelClients;

  void Run() {
    for (int i = 0; i < steps_ && !failed(); ++i) Step();
    if (!failed()) CalmDown();
  }

 protected:
  struct Request {
    int client;
    PortPtr port;
    Send send;
    std::optional<Answer> answer;  // executed
    Instant stuck_until;           // on its way, or at a server that does not run
  };

  virtual void Step() = 0;
  // Faults have stopped.
  virtual void CalmDown() = 0;
  virtual bool AnyWaits() const = 0;
  // What a client's threads do in calm; false: nothing.
  virtual bool GoOnInCalm(int c) = 0;
  virtual void OnSend(int /*c*/, const Send& /*send*/) {}
  virtual void OnHeard(const Request& /*request*/, const Answer& /*answer*/) {}
  virtual Answer AtServer(const Caller& caller, const Send& send) {
    return server().Execute(caller, send, now_);
  }

  // ---- Requests.

  bool Fetch(int c) {
    const absl::Duration early = Chance(4) ? absl::Milliseconds(20) : absl::ZeroDuration();
    const auto table = clients_[c]->table;
    if (table.empty()) return false;
    const size_t first = static_cast<size_t>(Pick(static_cast<int>(table.size())));
    for (size_t i = 0; i < table.size(); ++i) {
      const PortPtr& port = table[(first + i) % table.size()];
      std::optional<Send> send = port->machine->NextSend(Local(c), early);
      if (send) return SendIt(c, port, *send), true;
      Effects nothing;
      Absorb(c, *port, nothing);  // a debt may have expired
      EXPECT_TRUE(Local(c) < port->machine->next_send() || port->machine->next_expiry() <= Local(c))
          << "it names a moment at which it has nothing to send";
    }
    return false;
  }
  void SendIt(int c, const PortPtr& port, const Send& send) {
    Say(c, "/", port->caller.machine, " sends ", Name(send));
    EXPECT_EQ(send.sent, Local(c));
    if (std::holds_alternative<ToAcquire>(send.what)) port->grant = send.grant;
    if (IsDebt(send)) debts_since_.try_emplace(send.grant, now_);
    OnSend(c, send);
    const bool stuck = faulty_ && Chance(16);
    requests_.push_back(
        {c, port, send, {}, stuck ? now_ + absl::Milliseconds(Pick(1000)) : Instant()});
  }

  void Execute(Request& request) {
    now_ = now_ + absl::Microseconds(1);
    // What is executed when its tombstone is over leaves something behind.
    for (const GrantId grant : {request.send.grant, GrantOfBid(request.send)}) {
      if (server().WasBuried(grant, now_)) ghosts_.insert(grant);
    }
    request.answer = AtServer(request.port->caller, request.send);
    Say("executed for ", request.client, "/", request.port->caller.machine, ": ",
        Name(request.send), " -> ", Name(*request.answer));
    OnTime();
  }

  void Deliver(size_t index, bool lost) {
    const Request request = Taken(requests_, index);
    if (request.port->dead) return;
    Answer answer;
    if (lost) {
      answer = {.what = Failed{.why = absl::UnavailableError("no answer"),
                               .may_have_executed = request.answer.has_value() || Chance(2)}};
      const bool once_more = request.answer.has_value();
      if ((!once_more || repeating_) && answer.failed()->may_have_executed && Chance(2)) {
        late_.push_back(request);
      }
    } else {
      answer = *request.answer;
    }
    Hear(request, answer, lost ? " hears nothing of " : " hears of ");
  }
  // A script that would have to be sent again, and need not be.
  void Drop(size_t index) {
    const Request request = Taken(requests_, index);
    if (request.port->dead) return;
    Hear(request, {.what = Failed{.why = absl::UnavailableError("not sent again")}}, " drops ");
  }
  virtual void Hear(const Request& request, const Answer& answer, const char* how) {
    Say(request.client, "/", request.port->caller.machine, how, Name(request.send));
    const GrantId bid = GrantOfBid(request.send);
    const bool queued = std::holds_alternative<BidQueued>(answer.bid());
    if (queued || std::holds_alternative<BidGranted>(answer.bid())) Noticed(bid);
    if (IsDebt(request.send) && answer.failed() == nullptr) debts_since_.erase(request.send.grant);
    OnHeard(request, answer);
    Effects effects;
    Bidder& machine = *request.port->machine;
    machine.OnAnswer(request.send, answer, Local(request.client), effects);
    if (queued && !debts_since_.contains(bid) &&
        !machine.Wants({.what = ToAcquire(), .grant = bid}) &&
        !machine.Wants({.what = ToRenew(), .grant = bid})) {
      EXPECT_LE(machine.next_send(), Local(request.client) + ExpiryLead(kLongestLease))
          << bid << " is queued, and nobody cancels it";
    }
    Absorb(request.client, *request.port, effects);
  }

  void Network() {
    if (requests_.empty()) return;
    const size_t index = Any(requests_);
    const bool faulty = faulty_ && Chance(8);
    Request& request = requests_[index];
    const bool heard = !Chance(3) && (request.port->dead || !StandsStill(request.client));
    if (heard && !request.answer && Chance(10) && !request.port->machine->Wants(request.send)) {
      return Drop(index);
    }
    if (!request.answer && !faulty && now_ < request.stuck_until) return;
    if (!request.answer && !faulty) Execute(request);
    if (!heard || (!request.answer && !faulty)) return;
    Deliver(index, faulty);
  }

  void Late() {
    if (late_.empty()) return;
    Request request = Taken(late_, Any(late_));
    if (Chance(4)) return;
    // What prolongs a hold behind its client's back leaves something behind. So does what is
    // executed once more, if a message brought its grant: the hold was then released without a
    // tombstone, as no real network repeats a request.
    if (std::holds_alternative<ToRenew>(request.send.what) || request.answer) {
      ghosts_.insert({request.send.grant, GrantOfBid(request.send)});
    }
    Execute(request);
  }

  // ---- Messages.

  void Messages() {
    if (server().messages.empty()) return;
    const size_t index = Any(server().messages);
    if (faulty_ && Chance(10)) {
      Say("a message is lost");
      Taken(server().messages, index);
      return;
    }
    DeliverMessage(index, /*keep=*/faulty_ && Chance(10));
  }
  // As Core::OnMessage().
  void DeliverMessage(size_t index, bool keep) {
    const ReferenceServer::Message message = server().messages[index];
    int c = 0;
    while (c < clients() && clients_[c]->id != message.client) ++c;
    if (c < clients() && StandsStill(c)) return;
    if (!keep) Taken(server().messages, index);
    if (c == clients()) return;
    const GrantId grant = message.news.grant;
    Say(c,
        message.forced   ? " hears of force: "
        : message.wanted ? " is wanted: "
                         : " hears of grant: ",
        grant, "/", message.news.attempt);
    const auto table = clients_[c]->table;
    if (table.empty()) ghosts_.insert(grant);
    for (const PortPtr& port : table) {
      Effects effects;
      if (message.forced) {
        port->machine->OnForced(grant, Local(c));
      } else if (message.wanted) {
        port->machine->OnWanted(grant, Local(c));
      } else {
        port->machine->OnGrant(message.news, Local(c), effects);
      }
      Absorb(c, *port, effects);
    }
  }

  // ---- Calm.

  void Calm() {
    Say("---- calm");
    for (auto& client : clients_) client->stands_still_until = now_;
  }
  void AllLate() {
    while (!late_.empty() && !failed()) Late();
  }
  // All, or those that have to.
  void ReconnectAll(bool all) {
    for (int c = 0; c < clients(); ++c) {
      if (all || !server().subscribed[clients_[c]->id]) Reconnect(c, true);
    }
  }

  // Everything is executed and heard at once.
  bool Settle() {
    bool progress = false;
    for (int c = 0; c < clients() && !failed(); ++c) {
      progress |= GoOnInCalm(c);
      while (!failed() && Fetch(c)) progress = true;
    }
    while (!requests_.empty() && !failed()) {
      if (!requests_[0].answer) Execute(requests_[0]);
      Deliver(0, false);
      progress = true;
    }
    while (!server().messages.empty() && !failed()) {
      DeliverMessage(0, false);
      progress = true;
    }
    return progress;
  }
  void SettleAll() {
    while (!failed() && Settle()) {
    }
  }

  // Time goes on until there is nothing left to do.
  void RunOut(const std::function<Instant()>& decided_by) {
    const Instant calm = now_;
    while (!failed()) {
      if (Settle()) continue;
      const Instant next = NextTimer();
      if (next.is_infinite()) break;
      if (AnyWaits()) {
        ASSERT_LT(next, decided_by()) << "a waiter is left undecided";
      }
      ASSERT_LT(next, calm + absl::Seconds(60));
      AwaitTimer();
    }
    if (failed()) return;
    EXPECT_FALSE(AnyWaits()) << "nobody does anything for a waiter";
    ExpectIdle();
  }
  void ExpectIdle() const {
    for (const auto& client : clients_) {
      for (const PortPtr& port : client->table) EXPECT_TRUE(port->machine->idle());
    }
  }
  void ExpectOnlyGhosts() {
    for (const auto& [grant, owner] : server().Known(now_)) {
      EXPECT_TRUE(IsGhost(grant, owner)) << "the server still has " << grant;
    }
  }

  int steps_ = 500;
  bool repeating_ = false;  // a request may be executed once more
  std::vector<Request> requests_;
  std::vector<Request> late_;  // not heard of any more

 private:
  template <class T>
  size_t Any(const std::vector<T>& all) {
    return static_cast<size_t>(Pick(static_cast<int>(all.size())));
  }
  template <class T>
  static T Taken(std::vector<T>& all, size_t index) {
    T taken = std::move(all[index]);
    all.erase(all.begin() + static_cast<ptrdiff_t>(index));
    return taken;
  }
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_WORLD_H_
