// Several clients' machines against a naive server, through a hostile network, in virtual time.
// REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/engine/machine/lock_machine.h"
#include "tests/unit/engine/machine/model_schedules.h"
#include "tests/unit/engine/machine/reference_lock_server.h"

namespace redlatch::engine {
namespace {

using base::Instant;
constexpr int64_t kStart = 1'000'000'000'000'000;
constexpr absl::Duration kLongestLease = absl::Seconds(1);
constexpr absl::Duration kClaim = absl::Milliseconds(100);
constexpr int kEventsPerEpisode = 500;

class Model {
 public:
  explicit Model(uint64_t seed, bool verbose)
      : verbose_(verbose), random_(seed), server_(clients_count_ = 1 + Pick(4), kClaim) {
    forcing_ = Chance(6);
    losing_data_ = Chance(8);
    poking_ = !Chance(8);
    fast_ = Chance(2);
    const bool drift = Chance(3);
    for (int i = 0; i < clients_count_; ++i) {
      clients_.push_back(std::make_unique<Client>(LockMachine::Config{
          .reentrant = Chance(3), .unreachable_after = absl::Seconds(2), .numbers = &numbers_}));
      if (drift) clients_.back()->rate = 0.996 + 0.004 * Pick(3);
      const int threads = 1 + Pick(4);
      for (int j = 0; j < threads; ++j) clients_.back()->threads.emplace_back();
    }
    auto options = std::make_shared<LockOptions>();
    options->local_window = absl::Milliseconds(std::vector<int>{0, 5, 200}[Pick(3)]);
    options->local_retakes = std::vector<int>{0, 2, 16}[Pick(3)];
    options_ = options;
  }

  void Run() {
    for (int i = 0; i < kEventsPerEpisode && !failed(); ++i) Step();
    if (!failed()) CalmDown();
  }

  bool failed() const { return ::testing::Test::HasFailure(); }
  int events() const { return events_; }
  int grants() const { return grants_; }

 private:
  struct Thread {
    enum class State { kIdle, kWaiting, kHolding, kLost };
    State state = State::kIdle;
    Waiter* waiter = nullptr;
    bool to_poke = false;
    uint64_t hold = 0;
    FencingToken token;
    std::vector<Face> faces;  // one a level
    Instant deadline;         // the hold's, as it was last seen
  };
  struct Ending {  // a release under way
    uint64_t hold;
    GrantId grant;
    Instant deadline;
  };
  struct Client {
    explicit Client(const LockMachine::Config& config)
        : machine(config), reentrant(config.reentrant) {}
    LockMachine machine;
    bool reentrant;
    double rate = 1;
    std::deque<Thread> threads;
    std::vector<Ending> endings;
    std::deque<std::pair<Waiter, Waiter::State>> waiters;  // all that ever were, as decided
  };
  struct Request {
    int client;
    Send send;
    std::optional<Answer> answer;  // executed
  };

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int n) { return Pick(n) == 0; }

  Instant Local(int client) const {
    const double passed = static_cast<double>(now_.nanos() - kStart) * clients_[client]->rate;
    return Instant::FromNanos(kStart + static_cast<int64_t>(passed));
  }
  Instant FromLocal(int client, Instant local) const {
    if (local.is_infinite()) return local;
    const double passed = static_cast<double>(local.nanos() - kStart) / clients_[client]->rate;
    return Instant::FromNanos(kStart + static_cast<int64_t>(passed) + 2000);
  }

  template <typename... Args>
  void Say(const Args&... args) {
    ++events_;
    if (verbose_) {
      std::cerr << absl::StrCat((now_.nanos() - kStart) / 1000, " us: ", args...) << "\n";
    }
  }

  // ---- Threads.

  void Acquire(int c) {
    Client& client = *clients_[c];
    const int index = Pick(static_cast<int>(client.threads.size()));
    Thread& thread = client.threads[index];
    const bool nested =
        thread.state == Thread::State::kHolding && client.reentrant && thread.faces.size() < 4;
    if (thread.state != Thread::State::kIdle && !nested) return;
    client.waiters.emplace_back();
    Waiter& waiter = client.waiters.back().first;
    waiter.thread = index + 1;
    waiter.face = Chance(2) ? Face::kStd : Face::kStatus;
    waiter.patience = static_cast<Patience>(Pick(3));
    waiter.began = now_;
    waiter.terms = {.lease = absl::Milliseconds(300)};
    if (Chance(8)) waiter.terms = {.lease = kLongestLease, .manual = Chance(2)};
    waiter.options = options_;
    Say(c, ".", index, " acquires, patience ", static_cast<int>(waiter.patience));
    Effects effects;
    thread.waiter = &waiter;
    if (!nested) thread.state = Thread::State::kWaiting;
    client.machine.Acquire(waiter, Local(c), effects);
    if (nested) {
      // Lost at this very moment, it waits as any other.
      if (waiter.state == Waiter::State::kGranted && waiter.hold == thread.hold) {
        thread.faces.push_back(waiter.face);
        client.waiters.back().second = waiter.state;
        thread.waiter = nullptr;
      } else if (waiter.state == Waiter::State::kWaiting) {
        client.machine.GiveUp(waiter, Waiter::State::kStopped, Local(c), effects);
        client.waiters.back().second = waiter.state;
        thread.waiter = nullptr;
      }
    }
    waiter.parked = waiter.state == Waiter::State::kWaiting;
    Absorb(c, effects);
  }

  void GiveUp(int c, Thread& thread) {
    if (thread.state != Thread::State::kWaiting) return;
    Effects effects;
    const bool stop = thread.waiter->patience == Patience::kEndless;
    Say(c, " gives up");
    clients_[c]->machine.GiveUp(
        *thread.waiter, stop ? Waiter::State::kStopped : Waiter::State::kBusy, Local(c), effects);
    thread.waiter->parked = false;
    Absorb(c, effects);
  }

  void Poke(int c, Thread& thread) {
    if (thread.state != Thread::State::kWaiting) return;
    thread.to_poke = false;
    Effects effects;
    Say(c, ".", thread.waiter->thread - 1, " looks");
    clients_[c]->machine.Poked(*thread.waiter, Local(c), effects);
    Absorb(c, effects);
  }

  void Release(int c, Thread& thread) {
    Client& client = *clients_[c];
    const uint64_t id = static_cast<uint64_t>(&thread - &client.threads[0]) + 1;
    Effects effects;
    if (thread.state == Thread::State::kLost) {
      if (thread.faces.empty()) {
        thread.state = Thread::State::kIdle;
        return;
      }
      if (thread.faces.back() == Face::kStd) {
        EXPECT_EQ(client.machine.Unlock(id, Local(c), effects).kind, Released::Kind::kLost);
      } else {
        EXPECT_EQ(client.machine.Release(thread.hold, Local(c), effects).kind,
                  Released::Kind::kLost);
      }
      thread.faces.pop_back();
      if (thread.faces.empty()) thread.state = Thread::State::kIdle;
      return Absorb(c, effects);
    }
    if (thread.state != Thread::State::kHolding) return;
    const GrantId grant = server_.HoldOf(c, thread.token.value());
    const Face face = thread.faces.back();
    const bool outer = thread.faces.size() == 1;
    const Released released = face == Face::kStd
                                  ? client.machine.Unlock(id, Local(c), effects)
                                  : client.machine.Release(thread.hold, Local(c), effects);
    Say(c, ".", id - 1, " releases: ", static_cast<int>(released.kind));
    if (effects.losses.empty()) {
      thread.faces.pop_back();
      if (outer) {
        thread.state = Thread::State::kIdle;
      }
      if (released.kind == Released::Kind::kUnderWay) {
        client.endings.push_back({thread.hold, grant, thread.deadline});
      } else {
        EXPECT_EQ(released.kind, Released::Kind::kDone);
      }
    } else {  // lost at this very moment
      EXPECT_EQ(released.kind, Released::Kind::kLost);
      Absorb(c, effects, /*unlocked=*/face == Face::kStd);
      if (face == Face::kStd) return;
      std::erase(thread.faces, Face::kStatus);
      if (thread.faces.empty()) thread.state = Thread::State::kIdle;
      return;
    }
    Absorb(c, effects);
  }

  // ---- The network.

  void Fetch(int c) {
    const absl::Duration early = Chance(4) ? absl::Milliseconds(20) : absl::ZeroDuration();
    if (std::optional<Send> send = clients_[c]->machine.NextSend(Local(c), early)) {
      Say(c, " sends ", static_cast<int>(send->operation), " of ", send->grant, " bid ",
          send->bid.grant, "/", send->bid.attempt, " tombstone ", send->tombstone);
      EXPECT_EQ(send->sent, Local(c));
      if (send->operation == Operation::kRelease || send->operation == Operation::kCancel) {
        debts_since_.try_emplace(send->grant, now_);
      }
      requests_.push_back({c, *std::move(send), {}});
    }
    Outcomes(c);  // a debt may have expired
  }

  void Execute(Request& request) {
    now_ = now_ + absl::Microseconds(1);
    request.answer = server_.Execute(request.client, request.send, now_);
    Say("executed: ", static_cast<int>(request.send.operation), " of ", request.send.grant, " -> ",
        static_cast<int>(request.answer->kind), "/", static_cast<int>(request.answer->bid.kind));
  }

  void Deliver(size_t index, bool lost) {
    const Request request = requests_[index];
    requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(index));
    Answer answer;
    if (lost) {
      answer = {.failure = absl::UnavailableError("no answer"),
                .may_have_executed = request.answer.has_value() || Chance(2)};
      if (!request.answer && answer.may_have_executed && Chance(2))
        late_.push_back({request.client, request.send, {}});
    } else {
      answer = *request.answer;
    }
    Say(request.client, lost ? " hears of no answer to " : " hears the answer to ",
        request.send.grant, "/", request.send.bid.grant);
    Effects effects;
    clients_[request.client]->machine.OnAnswer(request.send, answer, Local(request.client),
                                               effects);
    Absorb(request.client, effects);
  }

  // A script that would have to be sent again, and need not be.
  void Drop(size_t index) {
    const Request request = requests_[index];
    requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(index));
    Say(request.client, " drops ", request.send.grant, "/", request.send.bid.grant);
    Effects effects;
    clients_[request.client]->machine.OnAnswer(
        request.send, {.failure = absl::UnavailableError("not sent again")}, Local(request.client),
        effects);
    Absorb(request.client, effects);
  }

  void Network() {
    if (requests_.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(requests_.size())));
    const bool faulty = Chance(8);
    const Request& picked = requests_[index];
    if (!picked.answer && Chance(10) && !clients_[picked.client]->machine.Wants(picked.send)) {
      return Drop(index);
    }
    if (!requests_[index].answer && !faulty) Execute(requests_[index]);
    if (Chance(3)) return;
    if (!requests_[index].answer && !faulty) return;
    Deliver(index, faulty);
  }

  void DeliverMessage(size_t index, bool keep) {
    const ReferenceLockServer::Message message = server_.messages[index];
    if (!keep) server_.messages.erase(server_.messages.begin() + static_cast<ptrdiff_t>(index));
    Client& client = *clients_[message.client];
    Say(message.client,
        message.forced ? " hears of force: " : " hears of grant: ", message.news.grant, "/",
        message.news.attempt);
    Effects effects;
    if (message.forced) {
      client.machine.OnForced(message.news.grant, Local(message.client));
    } else if (!client.machine.OnGrant(message.news, Local(message.client), effects)) {
      client.machine.OnUnwanted(message.news.grant, message.news.claim, 1, Local(message.client));
    }
    Absorb(message.client, effects);
  }

  void Messages() {
    if (server_.messages.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(server_.messages.size())));
    if (Chance(10)) {
      Say("a message is lost");
      server_.messages.erase(server_.messages.begin() + static_cast<ptrdiff_t>(index));
      return;
    }
    DeliverMessage(index, /*keep=*/Chance(10));
  }

  void Reconnect(int c) {
    std::erase_if(server_.messages, [&](const auto& message) { return message.client == c; });
    server_.subscribed[c] = !server_.subscribed[c] || Chance(2);
    Say(c, " reconnects");
    if (server_.subscribed[c]) clients_[c]->machine.OnReconnected(Local(c));
  }

  void Late() {
    if (late_.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(late_.size())));
    Request request = late_[index];
    late_.erase(late_.begin() + static_cast<ptrdiff_t>(index));
    if (Chance(4)) return;
    // What is executed when its tombstone is over, or prolongs a hold behind its client's back,
    // leaves something behind.
    for (const GrantId grant : {request.send.grant, request.send.bid.grant}) {
      const bool renewal = request.send.operation == Operation::kRenew;
      if (renewal || server_.WasBuried(grant, now_)) ghosts_.insert(grant);
    }
    Execute(request);
  }

  // ---- What must be so.

  void Absorb(int c, Effects& effects, bool unlocked = false) {
    Client& client = *clients_[c];
    for (Waiter* waiter : effects.wakes) {
      EXPECT_TRUE(waiter->wake_pending);
      waiter->wake_pending = false;
      if (waiter->state != Waiter::State::kWaiting) waiter->parked = false;
      client.threads[waiter->thread - 1].to_poke = poking_ || Chance(2);
    }
    for (Loss& loss : effects.losses) OnLoss(c, loss, unlocked);
    for (Thread& thread : client.threads) {
      if (thread.state != Thread::State::kWaiting) continue;
      if (thread.waiter->state != Waiter::State::kWaiting) OnDecision(c, thread);
    }
    for (Thread& thread : client.threads) {
      if (thread.state != Thread::State::kHolding) continue;
      thread.deadline = std::max(thread.deadline, client.machine.Deadline(thread.hold));
    }
    Outcomes(c);
    Check();
  }

  void OnLoss(int c, const Loss& loss, bool unlocked) {
    Client& client = *clients_[c];
    Say(c, ".", loss.hold.thread - 1, " lost: ", loss.reason);
    Thread& thread = client.threads[loss.hold.thread - 1];
    ASSERT_EQ(thread.state, Thread::State::kHolding);
    ASSERT_EQ(thread.hold, loss.hold.id);
    EXPECT_TRUE(loss.hold.view == nullptr || loss.hold.view->Lost(Local(c)).stop_requested());
    const GrantId grant = server_.HoldOf(c, thread.token.value());
    EXPECT_TRUE(Local(c) + ExpiryLead(kLongestLease) >= thread.deadline ||
                server_.owner(now_) != grant || server_.forced.contains(grant))
        << "lost for nothing";
    thread.state = Thread::State::kLost;
    if (unlocked) {
      std::erase(thread.faces, Face::kStatus);
      thread.faces.pop_back();
      if (thread.faces.empty()) thread.state = Thread::State::kIdle;
    }
  }

  void OnDecision(int c, Thread& thread) {
    Waiter& waiter = *thread.waiter;
    EXPECT_FALSE(waiter.parked) << "decided and not woken";
    Say(c, ".", waiter.thread - 1, " decided: ", static_cast<int>(waiter.state), " token ",
        waiter.token.value());
    for (auto& [each, state] : clients_[c]->waiters) {
      if (&each == &waiter) state = waiter.state;
    }
    thread.waiter = nullptr;
    thread.to_poke = false;
    thread.state = Thread::State::kIdle;
    if (waiter.state != Waiter::State::kGranted) {
      EXPECT_NE(waiter.state, Waiter::State::kDeadlock);
      return;
    }
    ++grants_;
    thread.state = Thread::State::kHolding;
    thread.hold = waiter.hold;
    thread.token = waiter.token;
    thread.faces = {waiter.face};
    thread.deadline = clients_[c]->machine.Deadline(waiter.hold);
    EXPECT_TRUE(clients_[c]->machine.Valid(waiter.hold, Local(c)));
    if (server_.forced.contains(server_.HoldOf(c, waiter.token.value()))) return;
    if (losing_data_) return;
    EXPECT_GT(waiter.token.value(), last_token_);
    last_token_ = waiter.token.value();
  }

  void Outcomes(int c) {
    Client& client = *clients_[c];
    std::erase_if(client.endings, [&](const Ending& ending) {
      const Released outcome = client.machine.Outcome(ending.hold);
      if (outcome.kind == Released::Kind::kUnderWay) {
        if (!Chance(50)) return false;
        client.machine.Forget(ending.hold);
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
    for (int c = 0; c < clients_count_; ++c) {
      for (const Thread& thread : clients_[c]->threads) {
        if (thread.state != Thread::State::kHolding) continue;
        if (!clients_[c]->machine.Valid(thread.hold, Local(c))) continue;
        const GrantId grant = server_.HoldOf(c, thread.token.value());
        if (server_.forced.contains(grant)) continue;
        ++valid;
        EXPECT_EQ(server_.owner(now_), grant) << "valid, and the server does not know";
      }
    }
    EXPECT_LE(valid, 1);
  }

  // ---- Schedules.

  void Advance(absl::Duration by) {
    now_ = now_ + by;
    Check();
  }

  void Step() {
    const int c = Pick(clients_count_);
    Client& client = *clients_[c];
    Thread& thread = client.threads[Pick(static_cast<int>(client.threads.size()))];
    Effects effects;
    switch (Pick(16)) {
      case 0:
      case 1:
        return Acquire(c);
      case 2:
        if (Chance(4)) GiveUp(c, thread);
        return;
      case 3:
      case 4:
        return Release(c, thread);
      case 5:
        if (thread.to_poke || Chance(10)) Poke(c, thread);
        return;
      case 6:
      case 7:
      case 8:
        return Fetch(c);
      case 9:
      case 10:
      case 11:
        return Network();
      case 12:
        return Messages();
      case 13:
        if (Chance(3)) Late();
        if (Chance(20)) Reconnect(c);
        if (forcing_ && Chance(10)) server_.Force(now_);
        if (losing_data_ && Chance(20)) {
          Say("data are lost");
          server_.LoseData(now_);
        }
        if (!client.endings.empty() && Chance(4)) {
          client.machine.Release(client.endings[0].hold, Local(c), effects);
        }
        return Absorb(c, effects);
      case 14:
        client.machine.Expire(Local(c), effects);
        return Absorb(c, effects);
      default:
        return Advance(Chance(fast_ ? 2 : 8) ? absl::Milliseconds(Pick(200))
                                             : absl::Microseconds(Pick(3000)));
    }
  }

  // Faults have stopped: everything is executed, heard and released at once.
  bool Settle() {
    bool progress = false;
    for (int c = 0; c < clients_count_ && !failed(); ++c) {
      Client& client = *clients_[c];
      Effects effects;
      client.machine.Expire(Local(c), effects);
      Absorb(c, effects);
      for (Thread& thread : client.threads) {
        if (thread.to_poke && thread.state == Thread::State::kWaiting) {
          Poke(c, thread);
          progress = true;
        }
        while ((thread.state == Thread::State::kHolding || thread.state == Thread::State::kLost) &&
               !failed()) {
          Release(c, thread);
          progress = true;
        }
      }
      Fetch(c);
    }
    while (!requests_.empty() && !failed()) {
      if (!requests_[0].answer) Execute(requests_[0]);
      Deliver(0, false);
      progress = true;
    }
    while (!server_.messages.empty() && !failed()) {
      DeliverMessage(0, false);
      progress = true;
    }
    return progress;
  }

  bool AnyWaits() const {
    for (const auto& client : clients_) {
      for (const Thread& thread : client->threads) {
        if (thread.state == Thread::State::kWaiting) return true;
      }
    }
    return false;
  }

  // What may be at the server though no client knows of it.
  bool IsGhost(GrantId grant) const {
    if (ghosts_.contains(grant)) return true;
    const auto owed = debts_since_.find(grant);  // and perhaps never answered
    return owed != debts_since_.end() && owed->second + absl::Milliseconds(290) <= now_;
  }
  bool HasGhost() const {
    if (losing_data_ || forcing_) return true;
    for (const GrantId grant : server_.Known(now_)) {
      if (IsGhost(grant)) had_ghost_ = true;
    }
    return had_ghost_;
  }

  void CalmDown() {
    Say("---- calm");
    poking_ = true;
    while (!late_.empty()) Late();
    const bool reconnecting = Chance(2);
    for (int c = 0; c < clients_count_; ++c) {
      if (!reconnecting && server_.subscribed[c]) continue;
      server_.subscribed[c] = true;
      clients_[c]->machine.OnReconnected(Local(c));
    }
    const Instant calm = now_;
    // A heartbeat, or the longest backoff, repairs all but holds that nobody knows of.
    const Instant decided_by = calm + absl::Milliseconds(reconnecting ? 1100 : 1500);
    const Instant ghosts_gone_by = calm + 3 * kLongestLease + absl::Seconds(2);
    while (!failed()) {
      if (Settle()) continue;
      Instant next = Instant::Infinite();
      for (int c = 0; c < clients_count_; ++c) {
        const LockMachine& machine = clients_[c]->machine;
        next = std::min(next, FromLocal(c, machine.next_send()));
        next = std::min(next, FromLocal(c, machine.next_expiry()));
      }
      if (next.is_infinite()) break;
      if (AnyWaits()) {
        ASSERT_LT(next, HasGhost() ? ghosts_gone_by : decided_by) << "a waiter is left undecided";
      }
      ASSERT_LT(next, calm + absl::Seconds(60));
      Advance(std::max(next - now_, absl::Microseconds(1)));
    }
    if (failed()) return;
    EXPECT_FALSE(AnyWaits()) << "nobody does anything for a waiter";
    for (const auto& client : clients_) {
      EXPECT_TRUE(client->machine.idle());
      for (const auto& [waiter, state] : client->waiters) EXPECT_EQ(waiter.state, state);
    }
    if (losing_data_) return;
    for (const GrantId grant : server_.Known(now_)) {
      EXPECT_TRUE(IsGhost(grant)) << "the server still has " << grant;
    }
  }

  const bool verbose_;
  std::mt19937_64 random_;
  int clients_count_;
  ReferenceLockServer server_;
  Instant now_ = Instant::FromNanos(kStart);
  bool forcing_ = false;
  bool losing_data_ = false;
  bool poking_ = true;
  bool fast_ = false;  // time passes
  std::atomic<uint64_t> numbers_{0};
  std::shared_ptr<const LockOptions> options_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Request> requests_;
  std::vector<Request> late_;
  std::set<GrantId> ghosts_;                // may be left at the server for a while
  std::map<GrantId, Instant> debts_since_;  // when a release or cancel was first sent
  mutable bool had_ghost_ = false;
  uint64_t last_token_ = 0;
  int events_ = 0;
  int grants_ = 0;
};

TEST(LockMachineModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<Model>(8000, {{"grants", &Model::grants}});
}

}  // namespace
}  // namespace redlatch::engine
