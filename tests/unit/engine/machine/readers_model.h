#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_MODEL_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_MODEL_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/unit/engine/machine/readers_world.h"

namespace redlatch::engine {

// What the threads of that world do, and the network between them and the server.
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
    thread.at = clients_[c]->exclusive;
    thread.nested = false;
    Ask(c, thread, Patience{static_cast<uint8_t>(Pick(3))});
    Say(c, ".", thread.id, " writes");
    Enter(c, thread);
  }

  void Read(int c, Thread& thread) {
    if (thread.waiter != nullptr) return;
    Client& client = *clients_[c];
    Expire(c);
    if (thread.read) {
      if (thread.read->lost || thread.read->faces.size() >= 3) return;
      const Face face = Chance(2) ? Face::kStd : Face::kStatus;
      const auto again = thread.read->group->machine.Reenter(thread.id, face, Local(c));
      ASSERT_TRUE(again.has_value());
      EXPECT_EQ(again->hold, thread.read->hold);
      thread.read->faces.push_back(face);
      return;
    }
    const auto writes = client.exclusive->machine.OfThread(thread.id);
    thread.nested = writes.depth > 0;
    Ask(c, thread, Patience{static_cast<uint8_t>(Pick(3))});
    Say(c, ".", thread.id, thread.nested ? " reads as it writes" : " reads");
    if (thread.nested) {
      client.exclusive->machine.Pin(thread.id);
      thread.waiter->write_token = writes.token;
      thread.at = Found(client, Side::kNest, writes.grant);
    }
    EnterGroup(c, thread);
  }

  void Ask(int c, Thread& thread, Patience patience) {
    thread.waiter = &clients_[c]->waiters.emplace_back();
    thread.waiter->thread = thread.id;
    thread.waiter->face = Chance(2) ? Face::kStd : Face::kStatus;
    thread.waiter->patience = patience;
    thread.waiter->began = now_;
    thread.waiter->terms = {.lease = absl::Milliseconds(300)};
    if (Chance(8))
      thread.waiter->terms = {.lease = kLongestLease, .manual = Chance(2), .whole = Chance(3)};
    thread.waiter->options = options_;
    thread.asked = ++server_.steps;
  }

  // As Readers::Acquire(): the latest group, or the next where that one takes nobody in.
  void EnterGroup(int c, Thread& thread) {
    Client& client = *clients_[c];
    do {
      if (thread.waiter->state == Waiter::State::kElsewhere) {
        const Waiter before = *thread.waiter;
        thread.waiter = &client.waiters.emplace_back();
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
        if (client.latest == nullptr || client.latest == thread.at) {
          client.latest = Found(client, Side::kRead);
        }
        thread.at = client.latest;
      }
      Enter(c, thread);
    } while (thread.waiter != nullptr && thread.waiter->state == Waiter::State::kElsewhere &&
             !failed());
  }

  void Enter(int c, Thread& thread) {
    Effects effects;
    Waiter& waiter = *thread.waiter;
    thread.to_go_on = false;
    const GroupPtr group = thread.at;
    group->machine.Acquire(waiter, Local(c), effects);
    waiter.parked = waiter.state == Waiter::State::kWaiting;
    Absorb(c, *group, effects);
  }

  void GiveUp(int c, Thread& thread) {
    if (thread.waiter == nullptr) return;
    Say(c, ".", thread.id, " gives up");
    Effects effects;
    const bool stop = thread.waiter->patience == Patience::kEndless;
    const GroupPtr group = thread.at;
    thread.waiter->parked = false;
    if (thread.waiter->state == Waiter::State::kElsewhere) return Ended(thread);
    group->machine.GiveUp(*thread.waiter, stop ? Waiter::State::kStopped : Waiter::State::kBusy,
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
    const GroupPtr group = thread.at;
    group->machine.Poked(*thread.waiter, Local(c), effects);
    Absorb(c, *group, effects);
  }

  static bool CanRelease(const Thread& thread, bool reading) {
    return thread.waiter == nullptr && (reading ? thread.read : thread.write);
  }
  void Release(int c, Thread& thread, bool reading) {
    if (!CanRelease(thread, reading)) return;
    Expire(c);
    Client& client = *clients_[c];
    std::optional<Tenancy>& tenancy = reading ? thread.read : thread.write;
    const GroupPtr group = tenancy->group;
    LockMachine& machine = group->machine;
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
      client.endings.push_back({group, tenancy->hold, tenancy->deadline});
    } else {
      EXPECT_EQ(released.kind, Released::Kind::kDone);
    }
    tenancy->faces.pop_back();
    if (outer) tenancy.reset();
    Absorb(c, *group, effects);
  }

  void Expire(int c) {
    const auto table = clients_[c]->table;
    for (const GroupPtr& group : table) {
      Effects effects;
      group->machine.Expire(Local(c), effects);
      Absorb(c, *group, effects);
    }
  }

  // ---- The network.

  bool Fetch(int c) {
    const absl::Duration early = Chance(4) ? absl::Milliseconds(20) : absl::ZeroDuration();
    auto& table = clients_[c]->table;
    const size_t first = static_cast<size_t>(Pick(static_cast<int>(table.size())));
    for (size_t i = 0; i < table.size(); ++i) {
      const GroupPtr group = table[(first + i) % table.size()];
      if (std::optional<Send> send = group->machine.NextSend(Local(c), early)) {
        Say(c, "/", group->caller.machine, " sends ", Name(*send));
        EXPECT_EQ(send->sent, Local(c));
        if (send->operation == Operation::kRelease || send->operation == Operation::kCancel) {
          debts_since_.try_emplace(send->grant, now_);
        }
        requests_.push_back({c, group, *std::move(send), {}});
        return true;
      }
    }
    Outcomes(c);  // a debt may have expired
    return false;
  }

  static std::string Name(const Send& send) {
    static constexpr const char* kNames[] = {"acquire", "renew", "release", "cancel"};
    return absl::StrCat(kNames[static_cast<int>(send.operation)], " of ", send.grant, " bid ",
                        send.bid.grant, "/", send.bid.attempt, send.bid.wait ? " waits" : "",
                        send.tombstone ? " tombstone" : "");
  }

  void Execute(Request& request) {
    now_ = now_ + absl::Microseconds(1);
    request.answer = server_.Execute(request.group->caller, request.send, now_);
    Say("executed for ", request.client, "/", request.group->caller.machine, ": ",
        Name(request.send), " -> ", static_cast<int>(request.answer->kind), "/",
        static_cast<int>(request.answer->bid.kind), " others ", request.answer->bid.others);
  }

  void Deliver(size_t index, bool lost) {
    const Request request = requests_[index];
    requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(index));
    if (request.group->dead) return;
    Answer answer;
    if (lost) {
      answer = {.failure = absl::UnavailableError("no answer"),
                .may_have_executed = request.answer.has_value() || Chance(2)};
      // Executed yet, or once more.
      if (answer.may_have_executed && Chance(2)) {
        late_.push_back(request);
      }
    } else {
      answer = *request.answer;
    }
    Say(request.client, "/", request.group->caller.machine,
        lost ? " hears nothing of " : " hears of ", Name(request.send));
    Effects effects;
    request.group->machine.OnAnswer(request.send, answer, Local(request.client), effects);
    Absorb(request.client, *request.group, effects);
  }

  // A script that would have to be sent again, and need not be.
  void Drop(size_t index) {
    const Request request = requests_[index];
    requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(index));
    if (request.group->dead) return;
    Say(request.client, " drops ", Name(request.send));
    Effects effects;
    request.group->machine.OnAnswer(request.send,
                                    {.failure = absl::UnavailableError("not sent again")},
                                    Local(request.client), effects);
    Absorb(request.client, *request.group, effects);
  }

  void Late() {
    if (late_.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(late_.size())));
    Request request = late_[index];
    late_.erase(late_.begin() + static_cast<ptrdiff_t>(index));
    if (Chance(4)) return;
    // What is executed when its tombstone is over, or prolongs a hold behind its client's back,
    // leaves something behind. So does what is executed once more, if a message brought its grant:
    // the hold was then released without a tombstone, as no real network repeats a request.
    for (const GrantId grant : {request.send.grant, request.send.bid.grant}) {
      const bool renewal = request.send.operation == Operation::kRenew;
      const bool again = request.answer.has_value();
      if (renewal || again || server_.WasBuried(grant, now_)) ghosts_.insert(grant);
    }
    Execute(request);
  }

  void DeliverMessage(size_t index, bool keep) {
    const Server::Message message = server_.messages[index];
    if (!keep) server_.messages.erase(server_.messages.begin() + static_cast<ptrdiff_t>(index));
    const auto found = std::find_if(clients_.begin(), clients_.end(), [&](const auto& client) {
      return client->id == message.client;
    });
    if (found == clients_.end()) return;
    const int c = static_cast<int>(found - clients_.begin());
    Say(c, " hears of grant: ", message.news.grant, "/", message.news.attempt);
    const auto table = clients_[c]->table;
    for (const GroupPtr& group : table) {
      Effects effects;
      const bool known = group->machine.OnGrant(message.news, Local(c), effects);
      Absorb(c, *group, effects);
      if (known) return;
    }
    clients_[c]->exclusive->machine.OnUnwanted(message.news.grant, message.news.claim, 1, Local(c));
  }
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_READERS_MODEL_H_
