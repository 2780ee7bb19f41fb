// Clients of three names, singly and together, in any order of calls: what must be true after each,
// and that messages alone bring everybody to its turn.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/sim/lua/multi/fixture.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

constexpr int kClients = 6;
constexpr int kClaimMs = 25;

class MultiRandom : public MultiScriptsFixture, public ::testing::WithParamInterface<bool> {
 protected:
  struct Actor {
    char id = 0;
    std::unique_ptr<Ear> ear;  // null: it is dead, and nobody hears its channel
    Names names;
    Request request;  // the present one
    int sequence = 0;
    bool asks = false;   // it waits, or does not know that it has it
    bool holds = false;  // the server said so, and nothing has taken it away since
    bool frozen = false;
    std::string ticket = "0";
  };

  int Below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void Begin(Actor& actor) {
    static const std::array<Names, 7> kSubsets = {
        Names{"a"}, {"b"}, {"c"}, {"a", "b"}, {"a", "c"}, {"b", "c"}, {"a", "b", "c"}};
    actor.names = kSubsets[static_cast<size_t>(Below(7))];
    actor.request = Claiming(kClaimMs, For(600'000, By(actor.id, ++actor.sequence)));
    actor.request.heartbeat_ms = 200'000;
    actor.request.attempt = 0;
    actor.ticket = "0";
    actor.asks = true;
  }
  void Bid(Actor& actor, bool wait = true) {
    Request request = actor.request;
    request.attempt = ++actor.request.attempt;
    request.ticket = actor.ticket;
    request.wait = wait;
    // It may have been handed over, which the message has not told yet.
    const bool has_it = Holder(actor.names.front()) == request.hold;
    const std::string reply = Ask(actor.names, request);
    Heard(actor, reply, wait, has_it);
  }
  // What the answer to a bid of it says.
  void Heard(Actor& actor, const std::string& reply, bool wait, bool had_it) {
    log_.push_back(absl::StrCat(std::string(1, actor.id), " asks: ", reply));
    Owe(actor.names, reply);
    const std::string word = Word(reply, 0);
    if (word == "granted") {
      if (!had_it) ExpectNobodyCameBefore(actor, wait);
      Got(actor, Word(reply, 1));
    } else if (word == "queued") {
      actor.ticket = Word(reply, 3);
      ExpectNone(actor);
      if (absl::StrContains(absl::StrCat(reply, " "), " look 1 ")) {
        ASSERT_LT(++repeats_, 100) << "repeats come to no end";
        return Bid(actor);
      }
      repeats_ = 0;
    } else if (word == "busy") {
      actor.asks = false;
      ExpectNone(actor);
      Log(actor, "leaves", Cancel(actor.names, actor.request));
    } else {
      ADD_FAILURE() << reply;
    }
  }
  void Got(Actor& actor, const std::string& token) {
    for (const std::string& name : actor.names) {
      std::string& last = tokens_[name];
      EXPECT_TRUE(actor.holds || last < token) << name << ": " << last << ", then " << token;
      last = std::max(last, token);
    }
    actor.asks = false;
    actor.holds = true;
  }
  void End(Actor& actor) {
    const std::string reply = Below(3) == 0 ? Release(actor.names, actor.request, 100)
                                            : Release(actor.names, actor.request);
    EXPECT_TRUE(absl::StartsWith(reply, "released")) << reply;
    actor.holds = false;
    Log(actor, "releases", reply);
  }
  void EndAndBid(Actor& actor) {
    const Request held = actor.request;
    Begin(actor);
    actor.names = names_of_[actor.id];
    Request fresh = actor.request;
    fresh.attempt = ++actor.request.attempt;
    const std::string reply = ReleaseAndQueue(actor.names, held, fresh);
    actor.holds = false;
    ASSERT_TRUE(absl::StartsWith(reply, "released ")) << reply;
    Heard(actor, reply.substr(9), /*wait=*/true, /*had_it=*/false);
  }
  void Log(const Actor& actor, const char* what, const std::string& reply) {
    log_.push_back(absl::StrCat(std::string(1, actor.id), " ", what, ": ", reply));
    Owe(actor.names, reply);
  }

  // Looks that a reply asks for: whoever was told makes them in time.
  void Owe(const Names& names, const std::string& reply) {
    for (size_t at = reply.find(" look "); at != reply.npos; at = reply.find(" look ", at + 1)) {
      const int64_t ms = std::atoll(reply.c_str() + at + 6);
      looks_.push_back({server_->clock() + 1000 * (ms + 1), names});
    }
  }
  void MakeLooks() {
    const int64_t now = server_->clock();
    std::vector<Names> due;
    std::erase_if(looks_, [&](const auto& look) {
      if (now < look.first) return false;
      due.push_back(look.second);
      return true;
    });
    for (const Names& names : due) {
      const std::string reply = Look(names);
      log_.push_back(absl::StrCat("look: ", reply));
      Owe(names, reply);
    }
  }

  // What a client that runs makes of its messages.
  bool Listen(Actor& actor) {
    bool any = false;
    for (std::string text = actor.ear->Hear(); !text.empty(); text = actor.ear->Hear()) {
      any = true;
      log_.push_back(absl::StrCat(std::string(1, actor.id), " hears ", text));
      if (Word(text, 1) != actor.request.hold || !actor.asks) continue;
      if (Word(text, 0) == "look") {
        EXPECT_GT(actor.names.size(), 1);
        EXPECT_EQ(Word(text, 2), actor.names.front());
        Bid(actor);
      } else if (Word(text, 0) == "grant") {
        EXPECT_EQ(actor.names.size(), 1) << "of several names nobody else can grant one";
        // One that is heard when its claim is over is a cause to ask; so is one of a grant that was
        // taken away, though another of the same hold stands by now.
        const bool held = tokens_[actor.names.front()] < Word(text, 3) &&
                          Renew(actor.names, actor.request) == "held";
        held ? Got(actor, Word(text, 3)) : Bid(actor);
      }
    }
    return any;
  }

  // Before it was granted all of its names, nobody live stood before it at any.
  void ExpectNobodyCameBefore(const Actor& actor, bool wait) {
    for (const std::string& name : actor.names) {
      for (const std::string& hold : Waiting(name)) {
        const Actor& other = *std::find_if(actors_.begin(), actors_.end(),
                                           [&](const Actor& each) { return each.id == hold[0]; });
        const std::string ticket = server_->Text({"ZSCORE", Queue(name), hold});
        const bool before = !wait || std::stod(ticket) < std::stod(actor.ticket);
        EXPECT_TRUE(!before || !other.ear) << name << ": " << hold;
      }
    }
  }
  void ExpectNone(const Actor& actor) {
    for (const std::string& name : actor.names) EXPECT_NE(Holder(name), actor.request.hold) << name;
  }
  // Each name has one holder, which is whoever believes it, or was handed it by a message that it
  // has not heard; and whoever waits for several has none of them.
  void ExpectOrder() {
    for (const Actor& actor : actors_) {
      if (actor.holds) {
        for (const std::string& name : actor.names) EXPECT_EQ(Holder(name), actor.request.hold);
      } else if (actor.asks && actor.names.size() > 1) {
        ExpectNone(actor);
      }
    }
    for (const char* name : {"a", "b", "c"}) Waiting(name);
  }
  // Somebody ends what a name has.
  void TakeAway(const std::string& name) {
    const std::string holder = Holder(name);
    if (Below(2) == 0) {
      server_->Command({"DEL", name});  // as if its time were over
    } else {
      const redis::Reply reply = Force({name});
      if (reply.elements.size() > 1 && reply.elements[1].integer > 0) {
        looks_.push_back({server_->clock() + 1000 * (reply.elements[1].integer + 1), {name}});
      }
    }
    log_.push_back("taken away: " + name);
    for (Actor& actor : actors_) {
      if (!actor.holds || actor.request.hold != holder) continue;
      // Its next renewal says so, and it releases the others.
      actor.holds = false;
      EXPECT_EQ(Renew(actor.names, actor.request), "not_held");
      Log(actor, "has lost it", Release(actor.names, actor.request));
    }
  }
  void Step(Actor& actor) {
    if (actor.frozen) {
      actor.frozen = Below(4) != 0;
      return;
    }
    if (!actor.ear) {
      if (Below(6) == 0) actor.ear = std::make_unique<Ear>(*server_, Channel(actor.id));
      return;
    }
    if (Below(3) != 0) Listen(actor);
    if (!actor.holds && !actor.asks) {
      Begin(actor);
      names_of_[actor.id] = actor.names;
      return Bid(actor, Below(4) != 0);
    }
    const int what = Below(12);
    if (actor.holds) {
      if (what < 5) return End(actor);
      if (what < 8) return EndAndBid(actor);
      if (what < 10) return Bid(actor);  // the answer was lost
      return;
    }
    if (what < 4) return Bid(actor);  // a heartbeat
    if (what == 4) {
      actor.asks = false;
      return Log(actor, "gives up", Cancel(actor.names, actor.request, Below(2) * 100));
    }
    if (what == 5) actor.frozen = true;
    if (what == 6) Dies(actor);
  }
  void Dies(Actor& actor) {
    log_.push_back(absl::StrCat(std::string(1, actor.id), " dies"));
    actor.ear.reset();
    actor.asks = false;
  }
  // From here on all that run release what they have, and nobody asks but who is told to: within
  // some claims everybody has had its turn.
  void Drain() {
    const int64_t patience = server_->clock() + 1'000'000;
    const auto waits = [](const Actor& actor) { return actor.asks && !actor.frozen; };
    // A heartbeat each, as some hold of the dead may have ended unnoticed.
    for (Actor& actor : actors_) {
      if (!actor.frozen && actor.ear) Listen(actor);
      if (waits(actor)) Bid(actor);
    }
    while (std::any_of(actors_.begin(), actors_.end(), waits)) {
      ASSERT_LT(server_->clock(), patience) << "somebody waits in vain";
      bool quiet = true;
      MakeLooks();
      for (Actor& actor : actors_) {
        if (actor.frozen || !actor.ear) continue;
        quiet = !Listen(actor) && quiet;
        if (actor.holds) End(actor);
      }
      ExpectOrder();
      if (quiet) server_->Pass(1);
    }
    for (Actor& actor : actors_) {
      if (actor.holds) End(actor);
    }
  }

  const uint32_t seed_ = support::Seed();
  std::mt19937 random_{seed_};
  std::vector<Actor> actors_;
  std::map<char, Names> names_of_;
  std::map<std::string, std::string> tokens_;
  std::vector<std::pair<int64_t, Names>> looks_;
  std::vector<std::string> log_;
  int repeats_ = 0;  // of one request, at once
};

INSTANTIATE_TEST_SUITE_P(WithBounds, MultiRandom, ::testing::Bool(),
                         [](const auto& bounds) { return bounds.param ? "Tight" : "AsBuilt"; });

TEST_P(MultiRandom, NobodyHoldsWhatAnotherDoesAndNobodyWaitsInVain) {
  tight_ = GetParam();
  for (int round = 0; round < support::Scaled(60) && !HasFailure(); ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", seed_, ", round ", round));
    server_->Command({"FLUSHALL"});
    log_.clear();
    looks_.clear();
    tokens_.clear();
    actors_.clear();
    for (int i = 0; i < kClients; ++i) {
      actors_.emplace_back().id = static_cast<char>('1' + i);
      actors_.back().ear = std::make_unique<Ear>(*server_, Channel(actors_.back().id));
    }
    for (int step = 0; step < 120 && !HasFailure(); ++step) {
      MakeLooks();
      if (Below(25) == 0) TakeAway(std::string(1, static_cast<char>('a' + Below(3))));
      Step(actors_[static_cast<size_t>(Below(kClients))]);
      ExpectOrder();
    }
    if (!HasFailure()) Drain();
    ExpectATtlOnEveryKey();
    if (!HasFailure()) continue;
    for (size_t i = log_.size() > 60 ? log_.size() - 60 : 0; i < log_.size(); ++i) {
      std::printf("  %s\n", log_[i].c_str());
    }
  }
}

}  // namespace
}  // namespace redlatch
