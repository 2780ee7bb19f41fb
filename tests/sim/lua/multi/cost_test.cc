// A bar: no call about 64 names executes more than a few commands per name, whatever waits there.

#include "tests/sim/lua/multi/fixture.h"

namespace redlatch {
namespace {

constexpr int kNames = 64, kWindow = 64, kQueues = 16;
// What each of the names may cost a call: it is surveyed, queued at, and its owner's lease is read.
constexpr int kCommandsPerName = 11;

struct MultiCost : MultiScriptsFixture {
  using Step = std::function<void()>;
  using Call = std::function<std::string()>;

  MultiCost() {
    for (int i = 0; i < kNames; ++i) names_.push_back(absl::StrCat("n", 10 + i));
  }

  // As many of each name as that, each its own.
  void MakeWaiters(int of_each, const std::string& channel) {
    for (const std::string& name : names_) {
      server_->Command({"EVAL", kMakeWaiters, "2", Queue(name), Waiters(name),
                        absl::StrCat(of_each), std::string(32, 'd'), channel, name.substr(1), "1"});
    }
  }
  // One at each name, which waits for that and for another, which is held.
  void MakePairs() {
    EXPECT_EQ(Word(Ask({"held"}, By('h')), 0), "granted");
    for (int i = 0; i < kNames; ++i) {
      EXPECT_EQ(
          Word(Ask({names_[static_cast<size_t>(i)], "held"}, Claiming(2000, By('e', i + 1))), 0),
          "queued");
    }
  }
  void Take() { EXPECT_EQ(Word(Ask(names_, By('a')), 0), "granted"); }
  void EndLeases() {
    for (const std::string& name : names_) server_->Command({"DEL", name});
  }
  int64_t CountWaiting() {
    int64_t count = 0;
    for (const std::string& name : names_) count += server_->Integer({"ZCARD", Queue(name)});
    return count;
  }
  int64_t CountOwned() {
    int64_t count = 0;
    for (const std::string& name : names_) count += Holder(name).empty() ? 0 : 1;
    return count;
  }
  static Step Then(Step first, Step second) {
    return [first = std::move(first), second = std::move(second)] {
      first();
      second();
    };
  }
  static bool Unfinished(const std::string& reply) {
    return absl::StrCat(reply, " ").find(" look 1 ") != reply.npos;
  }
  std::string Queues(char client) { return Ask(names_, Claiming(2000, By(client))); }
  std::string Repeats(char client) { return Ask(names_, Again(Claiming(2000, By(client)))); }

  // Expects that after these steps the call's script runs few commands. Answers its reply.
  std::string Costs(const char* what, const Step& prepare, const Call& call) {
    server_->Command({"FLUSHALL"});
    prepare();
    const uint64_t before = server_->calls_in_scripts();
    std::string reply = call();
    EXPECT_LE(server_->calls_in_scripts() - before, kNames * kCommandsPerName) << what;
    return reply;
  }
  // Repeats the call until its script has finished. Answers how many calls that took.
  int Finish(std::string& reply, const Call& call) {
    int calls = 0;
    for (; Unfinished(reply) && calls < 3 * kNames; ++calls) reply = call();
    return calls;
  }
  // The call is one of many that remove dead waiters: it removes some, not too many.
  void Removes(const char* what, const Step& prepare, const Call& call) {
    int64_t before = 0;
    const Step counted = Then(prepare, [&] { before = CountWaiting(); });
    const std::string reply = Costs(what, counted, call);
    const int64_t after = CountWaiting() - (reply.find("queued") != reply.npos ? kNames : 0);
    EXPECT_LT(after, before) << what;
    EXPECT_GE(after, before - kWindow) << what;
    EXPECT_TRUE(Unfinished(reply)) << what << ": " << reply;
  }

  Names names_;
};

TEST_F(MultiCost, RemovesOneWindowOfDeadWaitersPerCall) {
  for (const int each : {1, kWindow}) {
    const Step held = [&] {
      Take();
      MakeWaiters(each, "redlatch:dead");
    };
    const Step expired = Then(held, [&] { EndLeases(); });
    const Step queued = Then(expired, [&] { Queues('b'); });
    const Call tries = [&] { return Ask(names_, Impatient(By('c'))); };
    std::printf("dead waiters at each name: %d\n", each);
    Removes("release before the dead", held, [&] { return Release(names_, By('a')); });
    Removes("a check at the dead", expired, [&] { return Check(names_); });
    Removes("acquire behind the dead", expired, [&] { return Queues('b'); });
    Removes("its repeat", queued, [&] {
      const std::string reply = Repeats('b');
      EXPECT_TRUE(Unfinished(reply));
      return " look 1";  // it was queued before
    });
    Removes("try behind the dead", expired, tries);
    Removes("forced release before the dead", held, [&] {
      return Force(names_).elements.at(1).integer == 1 ? "released look 1" : "released";
    });
  }
}

TEST_F(MultiCost, RemovesAllDeadWaitersInBoundedCalls) {
  for (const bool released : {true, false}) {
    server_->Command({"FLUSHALL"});
    Take();
    MakeWaiters(kWindow, "redlatch:dead");
    if (!released) EndLeases();
    std::string reply = released ? Release(names_, By('a')) : Queues('b');
    const auto next = [&] { return released ? Check(names_) : Repeats('b'); };
    EXPECT_LE(Finish(reply, next), (released ? 1 : 2) * kNames);
    EXPECT_EQ(CountWaiting(), 0);
    EXPECT_EQ(Word(released ? Queues('b') : reply, 0), "granted");
  }
}

TEST_F(MultiCost, HandsOverSixteenNamesPerCall) {
  const Inbox inbox(*server_, "redlatch:live");
  const Step held = [&] {
    Take();
    MakeWaiters(2, "redlatch:live");
  };
  const Step expired = Then(held, [&] { EndLeases(); });
  Costs("a check before the living", expired, [&] { return Check(names_); });
  std::string reply =
      Costs("release before the living", held, [&] { return Release(names_, By('a')); });
  for (int owned = kQueues; owned < kNames; owned += kQueues) {
    EXPECT_EQ(CountOwned(), owned);
    EXPECT_TRUE(Unfinished(reply)) << reply;
    reply = Check(names_);
  }
  EXPECT_EQ(CountOwned(), kNames);
  EXPECT_EQ(Word(reply, 1) + Word(reply, 2), "look2000") << "the last: " << reply;
}

TEST_F(MultiCost, AcquireThatHandsOverIsBounded) {
  const Inbox inbox(*server_, "redlatch:live");
  const Step expired = [&] {
    Take();
    MakeWaiters(1, "redlatch:live");
    EndLeases();
  };
  Costs("acquire behind the living", expired, [&] { return Queues('b'); });
  EXPECT_EQ(CountOwned(), 4);
  const Step queued = Then(expired, [&] { Queues('b'); });
  std::string reply = Costs("its repeat", queued, [&] { return Repeats('b'); });
  EXPECT_EQ(CountOwned(), 4 + kQueues);
  EXPECT_EQ(Finish(reply, [&] { return Repeats('b'); }), 3);
  EXPECT_EQ(CountOwned(), kNames);
}

TEST_F(MultiCost, InvitesWaiterForAllNamesOnce) {
  Inbox inbox(*server_, Channel('b'));
  const Step queued = [&] {
    Take();
    Queues('b');
  };
  const Step free = Then(queued, [&] { Release(names_, By('a')); });
  Costs(
      "acquire of what is free for the first time", [] {}, [&] { return Queues('a'); });
  Costs(
      "acquire of what is held", [&] { Take(); }, [&] { return Queues('b'); });
  Costs("heartbeat", queued, [&] {
    Request beats = Again(Claiming(2000, By('b')));
    beats.listen = true;  // as one that comes later, it says again that it lives
    return Ask(names_, beats);
  });
  Costs("renew", queued, [&] { return Renew(names_, By('a')); });
  Costs("another waits while it is asked", free, [&] { return Queues('c'); });
  const Step others = Then(free, [&] { Queues('c'); });
  Costs("and repeats that", others, [&] { return Repeats('c'); });
  Costs("acquire that takes all", free, [&] { return Repeats('b'); });
  Costs("cancel", queued, [&] { return Cancel(names_, By('b')); });
  while (!inbox.Next().empty()) {
  }
  EXPECT_EQ(Costs("release before it", queued, [&] { return Release(names_, By('a')); }),
            "released");
  EXPECT_EQ(inbox.Next(), absl::StrCat("look ", By('b').grant, " ", names_.front()));
  EXPECT_EQ(inbox.Next(), "");
}

TEST_F(MultiCost, InvitesSeveralWaitersInBoundedCalls) {
  const Inbox inbox(*server_, Channel('e'));
  const Step held = [&] {
    Take();
    MakePairs();
  };
  const Step asked = [&] {
    held();
    while (Unfinished(Release(names_, By('a'))) || Unfinished(Check(names_))) {
    }
  };
  std::string reply = Costs("release before one of several at each", held,
                            [&] { return Release(names_, By('a')); });
  EXPECT_EQ(Finish(reply, [&] { return Check(names_); }), kNames / kQueues - 1);

  reply = Costs("acquire behind one of several at each", asked, [&] { return Queues('b'); });
  EXPECT_EQ(Word(reply, 0), "queued");
  const Step queued = Then(asked, [&] { Queues('b'); });
  reply = Costs("its repeat", queued, [&] { return Repeats('b'); });
  EXPECT_EQ(Word(reply, 0), "queued");
  EXPECT_FALSE(Unfinished(reply)) << "all have been asked: " << reply;
  // Nor if they need not be asked, since they have come a moment ago.
  const Step fresh = [&] {
    held();
    EndLeases();
    Queues('b');
  };
  reply = Costs("its repeat, if they are new", fresh, [&] { return Repeats('b'); });
  EXPECT_FALSE(Unfinished(reply)) << reply;
}

TEST_F(MultiCost, InspectReadsPartOfEachName) {
  const Step dead = [&] {
    Take();
    MakeWaiters(1000, "redlatch:dead");
  };
  Costs("inspect", dead, [&] {
    const redis::Reply seen = Inspect(names_);
    EXPECT_EQ(seen.elements.at(3).integer, 1000);
    EXPECT_EQ(seen.elements.at(4).elements.size(), 10);
    return std::string();
  });
}

}  // namespace
}  // namespace redlatch
