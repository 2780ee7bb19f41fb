// A bar: no call about 64 names holds up the server for longer than a millisecond, whoever waits.
// What is counted is its work; REDLATCH_FULL_BARS=1 prints the microseconds.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/redis/lua/multi/fixture.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

constexpr int kNames = 64, kWindow = 64, kOwners = 16;
// What each of the names may cost a call: it is surveyed, queued at, and its owner's lease is read.
constexpr int kCommandsPerName = 18;

class MultiCost : public MultiScriptsFixture {
 protected:
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
  int64_t CountWaiting() {
    int64_t count = 0;
    for (const std::string& name : names_) count += server_->Integer({"ZCARD", Queue(name)});
    return count;
  }
  int64_t CountOwned() {
    int64_t count = 0;
    for (const std::string& name : names_) count += server_->Integer({"EXISTS", name});
    return count;
  }

  // Expects that the call runs no more commands than that inside its script.
  std::string Measured(const char* what, const std::function<std::string()>& call) {
    server_->Command({"CONFIG", "RESETSTAT"});
    std::string reply = call();
    int64_t commands = 0, us = 0;
    for (const absl::string_view line :
         absl::StrSplit(server_->Text({"INFO", "commandstats"}), "\r\n", absl::SkipEmpty())) {
      const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::ByAnyChar(":=,"));
      int64_t calls = 0;
      if (parts.size() < 5 || !absl::SimpleAtoi(parts[2], &calls)) continue;
      if (parts[0] == "cmdstat_eval") {
        EXPECT_EQ(calls, 1) << what;
        EXPECT_TRUE(absl::SimpleAtoi(parts[4], &us));
      } else if (parts[0] != "cmdstat_config|resetstat") {
        commands += calls;
      }
    }
    EXPECT_LE(commands, kNames * kCommandsPerName) << what;
    if (support::FullBars()) {
      std::printf("%-40s %5d commands, %6d us\n", what, static_cast<int>(commands),
                  static_cast<int>(us));
    }
    return reply;
  }
  // The call is one of many by which a crowd of dead waiters goes: it removes some, and not too
  // many.
  std::string Removes(const char* what, const std::function<std::string()>& call) {
    MakeWaiters(kWindow, "redlatch:nobody");
    const int64_t before = CountWaiting();
    std::string reply = Measured(what, call);
    const int64_t after = CountWaiting() - (reply.find("queued") != reply.npos ? kNames : 0);
    EXPECT_LT(after, before) << what;
    EXPECT_GE(after, before - kWindow) << what;
    EXPECT_NE(reply.find(" look 1"), reply.npos) << what << ": " << reply;
    return reply;
  }
  void Free() {
    server_->Command({"FLUSHALL"});
    EXPECT_EQ(Word(Ask(names_, By('a')), 0), "granted");
  }

  Names names_;
};

TEST_F(MultiCost, OfDeadWaitersIsOneWindowPerCall) {
  Free();
  Removes("release", [&] { return Release(names_, By('a')); });
  Removes("a look", [&] { return Look(names_); });
  Removes("acquire", [&] { return Ask(names_, By('b')); });
  Request tries = By('c');
  tries.wait = false;
  Removes("try", [&] { return Ask(names_, tries); });
  Free();
  Removes("release and acquire", [&] { return ReleaseAndQueue(names_, By('a'), By('a', 2)); });
  Free();
  Removes("forced release", [&] {
    return Force(names_).elements.at(1).integer == 1 ? "released look 1" : "released";
  });
}

TEST_F(MultiCost, OfDeadWaitersEndsAfterSoManyCalls) {
  Free();
  MakeWaiters(kWindow, "redlatch:nobody");
  std::string reply = Release(names_, By('a'));
  int calls = 1;
  for (; reply.find(" look 1") != reply.npos && calls < 3 * kNames; ++calls) reply = Look(names_);
  EXPECT_LE(calls, kNames + 1);
  EXPECT_EQ(CountWaiting(), 0);
  EXPECT_EQ(Word(Ask(names_, By('b')), 0), "granted");
}

TEST_F(MultiCost, OfNewOwnersIsSixteenPerCall) {
  const Ear ear(*server_, "redlatch:live");
  Free();
  MakeWaiters(2, "redlatch:live");
  std::string reply = Measured("release", [&] { return Release(names_, By('a')); });
  for (int owned = kOwners; owned < kNames; owned += kOwners) {
    EXPECT_EQ(CountOwned(), owned);
    EXPECT_NE(reply.find(" look 1 "), reply.npos) << reply;
    reply = Measured("a look", [&] { return Look(names_); });
  }
  EXPECT_EQ(CountOwned(), kNames);
  EXPECT_EQ(Word(reply, 1) + Word(reply, 2), "look2000") << "the last: " << reply;
}

TEST_F(MultiCost, OfABidThatFindsNewOwnersIsBounded) {
  const Ear ear(*server_, "redlatch:live");
  Free();
  MakeWaiters(1, "redlatch:live");
  const std::string reply =
      Measured("release and acquire", [&] { return ReleaseAndQueue(names_, By('a'), By('a', 2)); });
  EXPECT_EQ(Word(reply, 1), "queued");
  EXPECT_EQ(CountOwned(), kOwners);
  Measured("heartbeat", [&] {
    Request again = By('a', 2);
    again.attempt = 2;
    return Ask(names_, again);
  });
  EXPECT_EQ(CountOwned(), 2 * kOwners);
}

TEST_F(MultiCost, OfAWaiterForAllNamesIsOneMessage) {
  Ear ear(*server_, Channel('b'));
  Free();
  Measured("acquire", [&] { return Ask(names_, By('b')); });
  Measured("renew", [&] { return Renew(names_, By('a')); });
  EXPECT_EQ(Measured("release", [&] { return Release(names_, By('a')); }), "released");
  EXPECT_EQ(ear.Hear(), absl::StrCat("look ", By('b').hold, " ", names_.front()));
  EXPECT_EQ(ear.Hear(), "");
  Request again = By('b');
  again.attempt = 2;
  EXPECT_EQ(Word(Measured("acquire that takes all", [&] { return Ask(names_, again); }), 0),
            "granted");
  Measured("cancel", [&] { return Cancel(names_, By('b')); });
}

TEST_F(MultiCost, OfInspectIsAPartOfEachName) {
  Free();
  MakeWaiters(1000, "redlatch:nobody");
  Measured("inspect", [&] {
    const redis::Reply seen = Inspect(names_);
    EXPECT_EQ(seen.elements.at(3).integer, 1000);
    EXPECT_EQ(seen.elements.at(4).elements.size(), 10);
    return std::string();
  });
}

}  // namespace
}  // namespace redlatch
