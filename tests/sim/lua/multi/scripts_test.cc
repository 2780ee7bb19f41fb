// The rules of lua/multi, and what the simple lock's scripts do with a waiter for several
// names.

#include "tests/sim/lua/multi/fixture.h"

namespace redlatch {
namespace {

using ::testing::MatchesRegex;
using ::testing::Not;

const Names kAll = {"a", "b", "c"};

struct MultiScripts : MultiScriptsFixture {
  const Request multi_ = Claiming(2000, By('1'));
  const Request simple_ = Claiming(2000, By('2'));
  const Request other_ = Claiming(2000, By('3'));
  const std::string look_ = absl::StrCat("look ", multi_.grant, " a");
};

TEST_F(MultiScripts, CrashedWaitersLeaveAmongLiveOnes) {
  for (const int live : {1, 2, 10, 30}) {
    SCOPED_TRACE(live);
    server_->Command({"FLUSHALL"});
    Ask(kAll, For(600'000, other_));
    for (int i = 1; i <= live; ++i) Ask(kAll, By('b', i));
    for (int i = 1; i <= 10; ++i) Ask(kAll, By('c', i));
    for (int beat = 0; beat < 6 * live; ++beat) {  // for a lease and three heartbeats
      server_->Pass(10'000 / live);
      Ask(kAll, Again(By('b', 1 + beat % live)));
    }
    for (const std::string& name : kAll) EXPECT_EQ(Waiting(name).size(), live) << name;
  }
}

TEST_F(MultiScripts, GrantsAllNamesWithOneLargerToken) {
  server_->Command({"SET", support::AuxiliaryKey("b", "fence"), "5000000000000000", "PX", "9999"});
  EXPECT_THAT(Ask(kAll, multi_), MatchesRegex("granted 5000000000000001 30000 0"));
  for (const std::string& name : kAll) {
    EXPECT_EQ(Holder(name), multi_.grant);
    EXPECT_EQ(Fence(name), 5000000000000001);
  }
  EXPECT_EQ(Release(kAll, multi_), "released");
  // The short way, and the one behind it for what was free for long.
  EXPECT_THAT(Ask({"d", "e"}, multi_), StartsWith("granted "));
  EXPECT_EQ(Release({"d", "e"}, multi_), "released");
  const std::string before = absl::StrCat(Fence("e"));
  const std::string again = Ask({"d", "e"}, multi_);
  EXPECT_LT(before, Word(again, 1));
  EXPECT_EQ(Word(again, 1), absl::StrCat(Fence("d")));
  EXPECT_EQ(Word(again, 1), absl::StrCat(Fence("e")));
  EXPECT_EQ(Holder("e"), multi_.grant);
}

TEST_F(MultiScripts, RepeatKeepsTheToken) {
  const std::string granted = Ask(kAll, multi_);
  server_->Command({"PEXPIRE", "b", "5000"});
  EXPECT_EQ(Ask(kAll, Again(multi_)), granted);
  EXPECT_GT(server_->Integer({"PTTL", "b"}), 29000);
}

TEST_F(MultiScripts, WaiterHasNoNameAndKeepsItsPlaces) {
  Ask({"b"}, simple_);
  EXPECT_THAT(Ask(kAll, multi_), MatchesRegex("queued [0-9]+ 0 [0-9]+"));
  EXPECT_EQ(Holder("a"), "");
  for (const std::string& name : kAll) EXPECT_THAT(Waiting(name), ElementsAre(multi_.grant));
  // A name that is free, but whose first waiter waits for another, is given to no other client.
  const Inbox inbox(*server_, Channel('1'));
  EXPECT_THAT(Ask({"a"}, other_), MatchesRegex("queued [0-9]+ 1 [0-9]+ look [0-9]+"));
  EXPECT_THAT(Ask({"c"}, Impatient(other_)), StartsWith("busy "));
  EXPECT_EQ(Holder("a"), "");
}

TEST_F(MultiScripts, NativeAcquireOvertakesNoWaiter) {
  const Inbox inbox(*server_, Channel('1'));
  Ask({"b"}, simple_);
  Ask(kAll, multi_);
  for (const char* name : {"a", "c"}) EXPECT_FALSE(AcquireNatively(name)) << name;
  EXPECT_EQ(server_->Integer({"PTTL", "a"}), server_->Integer({"PTTL", Queue("a")}));
  Release({"b"}, simple_);
  for (const std::string& name : kAll) EXPECT_FALSE(AcquireNatively(name)) << name;
  server_->Command({"DEL", "a"});
  Check({"a"});
  EXPECT_FALSE(AcquireNatively("a"));
  server_->Command({"DEL", "a", "b"});
  EXPECT_THAT(Ask({"a", "b"}, other_), StartsWith("queued ")) << "nor does another for several";
  for (const std::string& name : kAll) EXPECT_FALSE(AcquireNatively(name)) << name;
  Cancel({"a", "b"}, other_);
  EXPECT_THAT(Ask(kAll, Again(multi_)), StartsWith("granted "));
  Release(kAll, multi_);
  for (const std::string& name : kAll) EXPECT_TRUE(AcquireNatively(name)) << name;
}

TEST_F(MultiScripts, WaiterThatLeavesLeavesNothingInFreeNames) {
  Ask({"b"}, simple_);
  Ask(kAll, multi_);
  EXPECT_EQ(Cancel(kAll, multi_, 5000), "left");
  for (const char* name : {"a", "c"}) EXPECT_TRUE(AcquireNatively(name)) << name;
  EXPECT_FALSE(AcquireNatively("b"));
  server_->Command({"DEL", "a", "b", "c"});
  EXPECT_EQ(Ask(kAll, Again(multi_)), "gone") << "a late heartbeat";
}

// The placeholder outlives a queue whose waiters are gone: it excludes no script.
TEST_F(MultiScripts, PlaceholderIsFree) {
  const Inbox inbox(*server_, Channel('2'));
  const auto place = [&] { server_->Command({"SET", "a", "redlatch:free", "PX", "30000"}); };
  place();
  EXPECT_THAT(Inspect({"a"}).DebugString(), Not(HasSubstr("redlatch:free")));
  EXPECT_THAT(Inspect({"a", "b"}).DebugString(), Not(HasSubstr("redlatch:free")));
  EXPECT_EQ(Renew({"a"}, simple_), "not_held");
  for (const Names& names : {Names{"a"}, kAll}) {
    SCOPED_TRACE(names.size());
    const auto freed = [&] { return Holder("a").empty() && AcquireNatively("a"); };
    for (const Request& request : {simple_, Impatient(simple_)}) {
      place();
      EXPECT_THAT(Ask(names, request), StartsWith("granted "));
      Release(names, request);
    }
    place();
    EXPECT_EQ(Release(names, simple_), "not_held");
    EXPECT_TRUE(freed());
    place();
    EXPECT_EQ(Cancel(names, simple_), "unknown");
    EXPECT_TRUE(freed());
    place();
    EXPECT_EQ(Force(names).elements[0].text, "free");
    EXPECT_TRUE(freed());
    server_->Command({"DEL", "a"});
  }
}

TEST_F(MultiScripts, SimpleReleaseInvitesTheWaiter) {
  Inbox inbox(*server_, Channel('1'));
  Ask({"b"}, simple_);
  Ask(kAll, multi_);
  EXPECT_EQ(Release({"b"}, simple_), "released") << "no other client waits, so no check is needed";
  EXPECT_EQ(inbox.Next(), look_);
  EXPECT_EQ(Holder("b"), "");
  EXPECT_THAT(Ask(kAll, Again(multi_)), StartsWith("granted "));
  for (const std::string& name : kAll) {
    EXPECT_EQ(Holder(name), multi_.grant);
    EXPECT_THAT(Waiting(name), IsEmpty());
  }
}

TEST_F(MultiScripts, SimpleReleaseThatQueuesAgainInvitesTheWaiter) {
  Inbox inbox(*server_, Channel('1'));
  Ask({"b"}, simple_);
  Ask(kAll, multi_);
  EXPECT_THAT(ReleaseAndQueue({"b"}, simple_, By('2', 2)), StartsWith("released queued "));
  EXPECT_EQ(inbox.Next(), look_);
}

TEST_F(MultiScripts, InvitedWaiterIsPassedOverAfterClaim) {
  Inbox inbox(*server_, Channel('1'));
  Inbox next(*server_, Channel('3'));
  Ask({"b"}, simple_);
  Ask(kAll, Claiming(20, multi_));
  Ask({"b"}, other_);
  EXPECT_EQ(Release({"b"}, simple_), "released look 20");
  EXPECT_TRUE(server_->Await([&] { return Check({"b"}) == "unknown look 2000"; }));
  EXPECT_THAT(next.Next(), StartsWith("grant " + other_.grant));
  EXPECT_EQ(Holder("b"), other_.grant);
  EXPECT_THAT(Waiting("b"), IsEmpty());
  EXPECT_THAT(Waiting("a"), ElementsAre(multi_.grant)) << "each name sees to its own queue";
  // It is told that it missed a message, and returns to its place.
  EXPECT_THAT(Ask(kAll, Again(Claiming(20, multi_))), HasSubstr(" missed"));
  EXPECT_THAT(Waiting("b"), ElementsAre(multi_.grant));
}

TEST_F(MultiScripts, ReleaseHandsEachNameOver) {
  Inbox first(*server_, Channel('2'));
  Inbox second(*server_, Channel('3'));
  Ask(kAll, multi_);
  Ask({"a"}, simple_);
  const Request pair = Claiming(2000, By('3'));
  Ask({"b", "c"}, pair);
  EXPECT_EQ(Release(kAll, multi_), "released look 2000");
  EXPECT_EQ(first.Next(), absl::StrCat("grant ", simple_.grant, " 1 ", Fence("a"), " 2000 0 a"));
  EXPECT_EQ(second.Next(), absl::StrCat("look ", pair.grant, " b"));
  EXPECT_THAT(Ask({"b", "c"}, Again(pair)), StartsWith("granted "));
}

TEST_F(MultiScripts, ReleaseQueuesClientBehindOthers) {
  const Inbox inbox(*server_, Channel('2'));
  Ask(kAll, multi_);
  Ask({"b"}, simple_);
  const Request fresh = Claiming(2000, By('1', 2));
  EXPECT_THAT(ReleaseAndQueue(kAll, multi_, fresh), MatchesRegex("released queued .* look 2000"));
  EXPECT_EQ(Holder("b"), simple_.grant);
  EXPECT_EQ(Holder("a"), "");
  EXPECT_THAT(Waiting("a"), ElementsAre(fresh.grant));
  EXPECT_EQ(Release({"b"}, simple_), "released");
  EXPECT_THAT(Ask(kAll, Again(fresh)), StartsWith("granted "));
  EXPECT_THAT(ReleaseAndQueue(kAll, fresh, By('1', 3)), StartsWith("released granted "));
}

TEST_F(MultiScripts, PartlyLostGrantIsReleased) {
  Ask(kAll, multi_);
  server_->Command({"DEL", "b"});
  EXPECT_EQ(Renew(kAll, multi_), "not_held");
  EXPECT_EQ(Release(kAll, multi_), "not_held");
  for (const std::string& name : kAll) EXPECT_EQ(Holder(name), "");

  Ask(kAll, multi_);
  server_->Command({"SET", "b", "another client", "PX", "9999"});
  EXPECT_THAT(Ask(kAll, Again(multi_)), MatchesRegex("queued -1 0 [0-9]+ missed"));
  EXPECT_EQ(Holder("a"), "") << "a waiter has no name";
  EXPECT_EQ(Cancel(kAll, multi_), "left");
  EXPECT_EQ(Holder("b"), "another client");
  EXPECT_THAT(Waiting("c"), IsEmpty());
}

TEST_F(MultiScripts, ForceReleaseOfOneNameTellsHolder) {
  Inbox inbox(*server_, Channel('1'));
  Ask(kAll, multi_);
  Force({"b"});
  EXPECT_EQ(inbox.Next(), absl::StrCat("forced ", multi_.grant, " b"));
  EXPECT_EQ(Renew(kAll, multi_), "not_held");
  EXPECT_EQ(Force(kAll).elements.at(2).text, multi_.grant);
  EXPECT_EQ(inbox.Next(), absl::StrCat("forced ", multi_.grant, " a"));
  EXPECT_EQ(Force(kAll).elements.at(0).text, "free");
}

TEST_F(MultiScripts, LaterWaitersAreToldWhenForeignKeyExpires) {
  server_->Command({"SET", "b", "another program's", "PX", "5000"});
  EXPECT_THAT(Ask(kAll, multi_), MatchesRegex("queued -1 0 [0-9]+"));
  EXPECT_THAT(Ask(kAll, other_), MatchesRegex("queued (4...|5000) 1 [0-9]+"));
}

TEST_F(MultiScripts, DeletedKeysNeverAllowTwoOwners) {
  const Inbox other(*server_, Channel('3'));
  const Names two = {"a", "b"};
  for (const Names& asked : {two, Names{"a"}}) {
    std::vector<std::string> keys;
    for (const std::string& name : two) {
      for (const std::string& key :
           {name, Queue(name), Waiters(name), support::AuxiliaryKey(name, "fence")}) {
        keys.push_back(key);
      }
    }
    for (size_t i = 0; i < keys.size() * keys.size(); ++i) {
      SCOPED_TRACE(keys[i / 8] + " and " + keys[i % 8]);
      server_->Command({"FLUSHALL"});
      Ask(two, multi_);
      Ask(asked, other_);
      server_->Command({"DEL", keys[i / 8], keys[i % 8]});
      for (const int attempt : {1, 2, 3}) {
        Ask(asked, attempt == 1 ? Again(other_) : Again(Again(other_)));
        const bool mine = Renew(two, multi_) == "held", theirs = Renew(asked, other_) == "held";
        EXPECT_FALSE(mine && theirs);
        if (attempt == 1) Release(two, multi_);
      }
      EXPECT_EQ(Renew(asked, other_), "held") << "it waited, or finds the names free";
      EXPECT_EQ(Release(asked, other_), "released");
      EXPECT_THAT(Ask(two, simple_), StartsWith("granted "));
      server_->ExpectATtlOnEveryKey();
    }
  }
}

TEST_F(MultiScripts, FullMemoryAllowsTokensAndTombstones) {
  Request many = multi_;
  many.amount = 4096;
  for (const bool cancelled : {false, true}) {
    SCOPED_TRACE(cancelled);
    server_->Command({"FLUSHALL"});
    const std::string token = Word(Ask(kAll, many), 1);
    const int64_t used = std::atoll(token.c_str());
    server_->Command({"CONFIG", "SET", "maxmemory", "1"});
    if (cancelled) {
      EXPECT_EQ(Cancel(kAll, many), "passed_on");
      EXPECT_EQ(Fence("a"), used - 1);
    } else {
      EXPECT_EQ(ReleaseUsing(kAll, many, used, Fence("a")), "released");
      EXPECT_EQ(Fence("a"), used);
    }
    EXPECT_EQ(server_->Integer({"EXISTS", "a", "b", "c"}), 0);
    EXPECT_EQ(Cancel(kAll, other_, 5000), "unknown");
    EXPECT_EQ(Release(kAll, simple_, 5000), "not_held");
    server_->Command({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_EQ(Ask(kAll, other_), "gone");
    EXPECT_EQ(Ask(kAll, simple_), "gone");
  }
}

TEST_F(MultiScripts, InspectListsEachHolderAndWaiterOnce) {
  const Inbox inbox(*server_, Channel('1'));
  Ask({"b"}, simple_);
  Ask(kAll, multi_);
  Ask({"a"}, other_);
  const redis::Reply all = Inspect(kAll);
  EXPECT_EQ(all.elements.at(0).text, "multi");
  ASSERT_EQ(all.elements.at(2).elements.size(), 1);
  EXPECT_EQ(all.elements[2].elements[0].elements.at(0).text, simple_.grant);
  ASSERT_EQ(all.elements.at(4).elements.size(), 2);
  EXPECT_EQ(all.elements[4].elements[0].elements.at(0).text, multi_.grant);
  EXPECT_EQ(all.elements[4].elements[0].elements.at(1).text, multi_.owner);
  EXPECT_EQ(all.elements[4].elements[1].elements.at(0).text, other_.grant);
  EXPECT_EQ(all.elements.at(3).integer, 2);
}

class MultiCached : public MultiScriptsFixture {};

TEST_F(MultiCached, FirstWaiterRecallsEachName) {
  Inbox inbox(*server_, Channel('a'));
  const Request x = Cacheable(By('a', 1)), y = Cacheable(By('a', 2));
  EXPECT_THAT(Ask({"x"}, x), StartsWith("granted"));
  EXPECT_THAT(Ask({"y"}, y), StartsWith("granted"));
  EXPECT_THAT(Ask({"x", "y", "z"}, By('b')), StartsWith("queued"));
  EXPECT_EQ(inbox.Next(), "wanted " + x.grant + " x");
  EXPECT_EQ(inbox.Next(), "wanted " + y.grant + " y");
  EXPECT_EQ(inbox.Next(), "");
  EXPECT_THAT(Ask({"x", "y", "z"}, By('c')), StartsWith("queued"));
  EXPECT_EQ(inbox.Next(), "") << "they have been called";
  EXPECT_THAT(Ask({"x", "y", "z"}, Again(By('b'))), StartsWith("queued"));
  EXPECT_EQ(inbox.Next(), "wanted " + x.grant + " x");
}

TEST_F(MultiCached, TryRecallsIfAskedTo) {
  Inbox inbox(*server_, Channel('a'));
  const Request y = Cacheable(By('a'));
  EXPECT_THAT(Ask({"y"}, y), StartsWith("granted"));
  EXPECT_THAT(Ask({"x", "y"}, Impatient(By('b'))), StartsWith("busy"));
  EXPECT_EQ(inbox.Next(), "");
  EXPECT_THAT(Ask({"x", "y"}, Recalling(By('b'))), StartsWith("busy"));
  EXPECT_EQ(inbox.Next(), "tried " + y.grant + " y");
}

}  // namespace
}  // namespace redlatch
