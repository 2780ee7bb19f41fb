// The semaphore's scripts in any order of calls: the ways for the common cases against the general
// one and a model; and what must be true whatever expires and dies.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/lua/semaphore/fixture.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

class SemaphoreScriptsRandomTest : public SemaphoreScriptsFixture {
 protected:
  int Below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  Request Any(char client, int sequence) {
    Request request = Below(3) == 0 ? Many(1 + Below(4), client, sequence) : One(client, sequence);
    request.wait = Below(4) != 0;
    request.lease_ms = 600'000;  // nothing ends by itself
    request.heartbeat_ms = 200'000;
    return request;
  }
  template <typename Map>
  static auto Pick(const Map& map, int index) {
    return *std::next(map.begin(), index % static_cast<int>(map.size()));
  }

  const uint32_t seed_ = support::Seed();
  std::mt19937 random_{seed_};
};

// Who holds, who waits and who is told what: what the scripts must make of calls where nothing
// expires. The clients from 'e' on are deaf.
class Model {
 public:
  struct Waiter {
    int ticket;
    std::string hold;
    int weight;
  };

  std::string Acquire(const Request& request, bool at_its_ticket) {
    if (gone.contains(request.hold)) return "gone";
    if (holds.contains(request.hold)) return "granted";
    if (request.block > capacity) return "REFUSED";
    const bool queued = Queued(request.hold);
    const bool stands = request.wait || queued;
    int ticket = 0;
    if (stands && !queued) {
      if (at_its_ticket && tickets.contains(request.hold)) {
        ticket = tickets[request.hold];
      } else {
        ticket = next = std::max(next, queue.empty() ? 0 : queue.back().ticket) + 1;
      }
      Enqueue({ticket, request.hold, request.block});
    }
    const bool blocked = Settle(request.hold);
    if (!stands && !blocked && request.block <= Free()) holds[request.hold] = request.block;
    if (holds.contains(request.hold)) return "granted";
    if (ticket > 0) tickets[request.hold] = ticket;
    return request.wait ? "queued" : "busy";
  }
  bool End(const std::string& hold) {
    const bool held = holds.erase(hold) == 1;
    Leave(hold);
    Settle();
    return held;
  }
  void SetCapacity(int n) {
    capacity = n;
    for (const Waiter& waiter : std::vector<Waiter>(queue)) {
      if (waiter.weight <= n) continue;
      Tell("forced ", waiter.hold);
      Leave(waiter.hold);
    }
    Settle();
  }
  void ForceRelease() {
    for (const auto& [hold, weight] : holds) Tell("forced ", hold);
    holds.clear();
    Settle();
  }

  bool Queued(const std::string& hold) const {
    return std::any_of(queue.begin(), queue.end(), [&](auto& each) { return each.hold == hold; });
  }
  int Used() const {
    int used = 0;
    for (const auto& [hold, weight] : holds) used += weight;
    return used;
  }
  int Free() const { return capacity - Used(); }

  int capacity = 3, next = 0;
  std::map<std::string, int> holds, tickets;
  std::vector<Waiter> queue;
  std::set<std::string> gone;
  std::vector<std::string> told;

 private:
  void Enqueue(Waiter waiter) {
    const auto place = std::find_if(queue.begin(), queue.end(),
                                    [&](auto& each) { return each.ticket > waiter.ticket; });
    queue.insert(place, std::move(waiter));
  }
  void Leave(const std::string& hold) {
    std::erase_if(queue, [&](auto& each) { return each.hold == hold; });
  }
  void Tell(const std::string& what, const std::string& hold) {
    if (hold[0] < 'e') told.push_back(what + hold);
  }
  // Answers whether somebody waits for whom there is too little.
  bool Settle(const std::string& asks = "") {
    for (const Waiter& waiter : std::vector<Waiter>(queue)) {
      if (Free() <= 0) return false;
      if (waiter.hold != asks && waiter.hold[0] >= 'e') {
        Leave(waiter.hold);
        continue;
      }
      if (waiter.weight > Free()) return true;
      Leave(waiter.hold);
      holds[waiter.hold] = waiter.weight;
      if (waiter.hold != asks) Tell("grant ", waiter.hold);
    }
    return false;
  }
};

TEST_F(SemaphoreScriptsRandomTest, TheShortWaysAndTheGeneralOneDoWhatTheModelDoes) {
  SCOPED_TRACE(absl::StrCat("seed ", seed_));
  // The same scripts, which take the general way always.
  const auto without = [](std::string body, const std::string& condition) {
    EXPECT_NE(body.find(condition), body.npos);
    return body.replace(body.find(condition), condition.size(), "false");
  };
  const std::string acquire = without(std::string(lua::kSemaphoreAcquire.body), "existing < 2");
  const std::string release = without(std::string(lua::kSemaphoreRelease.body), "not ARGV[2]");
  LockScripts general = scripts_;
  general.acquire = {.name = "general", .body = acquire};
  general.release = {.name = "general", .body = release};

  std::map<char, std::unique_ptr<Ear>> ears;
  for (char client = 'a'; client < 'e'; ++client) {
    ears[client] = std::make_unique<Ear>(*server_, Channel(client));
  }
  const std::string names[] = {"short", "general"};
  std::map<std::string, std::string> tickets[2];
  std::map<char, int> sequence;
  std::map<std::string, Request> asked;
  Model model;
  capacity_ = model.capacity;
  const int calls = support::Scaled(2000);
  for (int i = 0; i < calls && !HasFailure(); ++i) {
    const char client = static_cast<char>('a' + Below(6));
    if (Below(2) == 0 || sequence[client] == 0) ++sequence[client];
    Request request = Any(client, std::max(1, sequence[client] - (Below(5) == 0 ? 1 : 0)));
    if (asked.contains(request.hold)) {
      request.block = asked[request.hold].block;  // as in every attempt of a hold
    }
    int operation = Below(20);
    if (operation < 8 && operation > 0 && !model.holds.empty() && Below(3) != 0) {
      request = asked[Pick(model.holds, Below(100)).first];
    }
    const bool again = Below(2) == 0, remember = Below(3) == 0;
    const int capacity = 1 + Below(6);
    const bool held = model.holds.contains(request.hold), queued = model.Queued(request.hold);
    std::string expected;
    if (operation == 0) {
      operation = Below(10);  // rarer
      if (operation == 0) {
        model.ForceRelease();
      } else if (operation < 4) {
        model.SetCapacity(capacity);
        expected = kSet;
      } else {
        expected = held ? kHeld : kNotHeld;
      }
      operation += 100;
    } else if (operation < 6) {
      expected = model.End(request.hold) ? kReleased : kNotHeld;
    } else if (operation < 8) {
      model.End(request.hold);
      expected = held ? kPassedOn : queued ? kLeft : kUnknown;
    } else {
      expected = model.Acquire(request, again);
      if (expected != "REFUSED") asked.try_emplace(request.hold, request);
    }
    if (operation < 8 && (remember || operation >= 6)) model.gone.insert(request.hold);

    std::vector<std::string> waiting;
    for (const Model::Waiter& waiter : model.queue) waiting.push_back(waiter.hold);
    std::sort(model.told.begin(), model.told.end());
    for (const int which : {0, 1}) {
      name_ = names[which];
      SCOPED_TRACE(absl::StrCat(name_, ", call ", i, ": ", operation, " of ", request.hold, ", ",
                                request.block, " permits"));
      const LockScripts& scripts = which == 0 ? scripts_ : general;
      if (operation == 100) {
        ForceRelease();
      } else if (operation > 100 && operation < 104) {
        EXPECT_EQ(SetCapacity(capacity), expected);
      } else if (operation >= 104) {
        EXPECT_EQ(Renew(request), expected);
      } else if (operation < 6) {
        std::vector<std::string> args = {request.hold}, gone;
        if (remember) {
          args.insert(args.end(), {"0 0 600000", request.owner});
          gone = {Gone(request.hold), Gone(request.hold)};
        }
        EXPECT_EQ(Eval(scripts.release, gone, args).DebugString(), expected);
      } else if (operation < 8) {
        EXPECT_EQ(Cancel(request, 600000), expected);
      } else {
        Request asks = request;
        if (again && tickets[which].contains(request.hold)) {
          asks = Again(request, tickets[which][request.hold]);
        }
        const redis::Reply reply = Eval(scripts.acquire, {Gone(request.hold)}, asks.Args());
        if (expected == "REFUSED") {
          EXPECT_THAT(reply.DebugString(), ::testing::StartsWith("error REFUSED"));
        } else {
          EXPECT_EQ(First(reply), expected) << reply.DebugString();
        }
        if (First(reply) == "queued") tickets[which][request.hold] = reply.elements[3].text;
      }
      EXPECT_THAT(Holding(), ::testing::SizeIs(model.holds.size()));
      for (const auto& [hold, weight] : model.holds) {
        EXPECT_NE(server_->Text({"ZSCORE", Permits(), hold}), "") << hold;
        EXPECT_EQ(Field(hold), weight == 1 ? "" : absl::StrCat(weight)) << hold;
      }
      EXPECT_EQ(Waiting(), waiting);
      EXPECT_EQ(Used(), model.Used());
      ExpectConsistent();
      std::vector<std::string> told;
      for (const auto& [each, ear] : ears) {
        for (std::string message = ear->Hear(); !message.empty(); message = ear->Hear()) {
          EXPECT_TRUE(message.ends_with(" " + name_)) << message;
          told.push_back(message.substr(0, message.find(' ', message.find(':'))));
        }
      }
      std::sort(told.begin(), told.end());
      EXPECT_EQ(told, model.told);
    }
    model.told.clear();
  }
  EXPECT_GT(sequence['a'], 1);
}

TEST_F(SemaphoreScriptsRandomTest, WhateverExpiresAndDiesNobodyIsOneTooManyOrForgotten) {
  SCOPED_TRACE(absl::StrCat("seed ", seed_));
  struct State {
    std::map<std::string, int> holds, expired;
    std::vector<std::string> queue;
    int used = 0;
  };
  const auto weight_of = [this](const std::string& hold) {
    const std::string weight = Field(hold);
    return weight.empty() ? 1 : std::stoi(weight);
  };
  const auto look = [&] {
    State state;
    for (const std::string& hold : Holding()) {
      const bool ended = server_->Text({"ZSCORE", Permits(), hold}) == "1000";
      (ended ? state.expired : state.holds)[hold] = weight_of(hold);
    }
    for (const auto& [hold, weight] : state.holds) state.used += weight;
    state.queue = Waiting();
    return state;
  };

  std::map<char, std::unique_ptr<Ear>> ears;
  std::map<std::string, Request> asked;
  std::map<std::string, int> weights;
  std::set<std::string> overdue;
  int capacity = 3, sequence = 0;
  capacity_ = capacity;
  State before;
  const int calls = support::Scaled(2000);
  for (int i = 0; i < calls && !HasFailure(); ++i) {
    Request request = Any(static_cast<char>('a' + Below(5)), ++sequence);
    const int operation = Below(24);
    if (!asked.empty() && (operation < 9 || Below(3) == 0)) {
      request = Pick(asked, Below(1000)).second;
      if (Below(2) == 0) request = Again(request);
    }
    if (operation < 6 && !before.holds.empty() && Below(3) != 0) {
      request = asked.at(Pick(before.holds, Below(100)).first);
    }
    weights[request.hold] = request.block;
    std::string what;
    bool settles = true, may_be_inconsistent = false;
    if (operation < 5) {
      what = Release(request, 0, 0, Below(3) == 0 ? 600000 : 0);
      asked.erase(request.hold);
    } else if (operation == 5) {
      what = Cancel(request, 600000);
      asked.erase(request.hold);
    } else if (operation == 6) {
      what = Renew(request);
      EXPECT_EQ(what == kHeld, before.holds.contains(request.hold));
      settles = false;
    } else if (operation == 7) {
      if (before.holds.contains(request.hold)) Expire(request.hold);
      if (Below(8) == 0) server_->Command({"DEL", Permits()});  // as if all had expired
      settles = false;
      may_be_inconsistent = true;
    } else if (operation == 8) {
      if (!before.queue.empty()) {
        overdue.insert(Pick(before.queue, Below(100)));
        MakeOverdue(Pick(before.queue, 0));
        overdue.insert(Pick(before.queue, 0));
        for (const std::string& hold : overdue) {
          if (std::count(before.queue.begin(), before.queue.end(), hold) == 1) MakeOverdue(hold);
        }
      }
      settles = false;
    } else if (operation == 9) {
      const char client = request.hold[0];
      if (!ears[client]) {
        ears[client] = std::make_unique<Ear>(*server_, Channel(client));
      } else if (Below(3) == 0) {
        ears[client].reset();
      }
      settles = false;
    } else if (operation == 10 && Below(3) == 0) {
      capacity = 1 + Below(6);
      what = SetCapacity(capacity);
      request.hold = "";  // nobody's request
    } else if (operation == 11 && Below(8) == 0) {
      what = ForceRelease();
      request.hold = "";
    } else {
      const redis::Reply reply = Ask(request);
      what = First(reply);
      overdue.erase(request.hold);
      // Behind others nobody looks who has expired: the head does, or whoever releases.
      settles = what == "busy" || (what == "queued" && reply.elements[2].integer == 0) ||
                (what == "granted" && !before.holds.contains(request.hold));
      if (what == "granted" || what == "queued") asked[request.hold] = request;
    }
    SCOPED_TRACE(absl::StrCat("call ", i, ": ", operation, " of ", request.hold, ", ",
                              request.block, " permits: ", what));
    const State after = look();
    const bool stored = server_->Integer({"EXISTS", name_}) == 1;

    std::set<std::string> told, entered;
    for (const auto& [client, ear] : ears) {
      for (std::string message = ear ? ear->Hear() : ""; !message.empty(); message = ear->Hear()) {
        if (!message.starts_with("grant ")) continue;
        told.insert(message.substr(6, message.find(' ', 6) - 6));
      }
    }
    for (const auto& [hold, weight] : after.holds) {
      EXPECT_EQ(std::count(after.queue.begin(), after.queue.end(), hold), 0);
      if (before.holds.contains(hold)) continue;
      EXPECT_LE(after.used, capacity) << "one too many";
      EXPECT_EQ(weight, weights[hold]);
      if (hold != request.hold) entered.insert(hold);
    }
    EXPECT_EQ(told, entered);
    // Who asks lives, though nobody could tell it of a grant.
    const auto lives = [&](const std::string& hold) {
      return (hold == request.hold || ears[hold[0]] != nullptr) && weights[hold] <= capacity;
    };
    for (const std::string& hold : entered) {
      for (const std::string& ahead : before.queue) {
        if (ahead == hold) break;
        if (!lives(ahead) || overdue.contains(ahead) || ahead == request.hold) continue;
        EXPECT_TRUE(after.holds.contains(ahead)) << ahead << " was overtaken by " << hold;
      }
    }
    if (settles && stored) {
      const auto next = [&](bool late) {
        return std::find_if(after.queue.begin(), after.queue.end(), [&](const std::string& hold) {
          return lives(hold) && overdue.contains(hold) == late;
        });
      };
      const auto waits = next(false) != after.queue.end() ? next(false) : next(true);
      if (waits != after.queue.end()) {
        EXPECT_GT(weights[*waits], capacity - after.used) << *waits << " was forgotten";
      }
    }
    if (!may_be_inconsistent && settles) ExpectConsistent();
    if (i % 100 == 0) ExpectATtlOnEveryKey();
    before = after;
  }
  Cancel(One('z'));
}

}  // namespace
}  // namespace redlatch
