// Bars: 8 processes use the same RedLocks while each second two of five servers are killed, emptied
// or frozen, for three minutes (12 s unless REDLATCH_FULL_BARS=1). No two hold at the same time,
// tokens grow, somebody gets on all the time, and nothing is left behind.
#include "tests/fault/api/quorum_load.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/fault/api/quorum_nemesis.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_check/history_event.h"
#include "tests/support/history_writer.h"
#include "tests/support/quorum_group.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using support::Await;
using support::RedisServer;

constexpr int kQuorumProcesses = 8;
const int kSeconds = support::FullBars() ? 180 : 12;
// Longer than a lease, and short enough for all to have votes before the next two are hit.
constexpr char kDelay[] = "restart_delay=400ms";
constexpr absl::Duration kDelayTime = absl::Milliseconds(400);

// While a call waits for a lock, under all of this: in ns.
constexpr int64_t kLongestIdle = 1'500'000'000;

REDLATCH_CHILD(QuorumWorker) { return quorum_load::RunQuorumLoad(parent, args); }

class QuorumLoad : public ::testing::Test {
 protected:
  void Begin() {
    for (int i = 0; i < kQuorumProcesses; ++i) {
      paths_.push_back(absl::StrCat(directory_.path(), "/", i));
      crew_.push_back(support::SpawnChild("QuorumWorker",
                                          {servers_.url(kDelay), paths_.back(), absl::StrCat(i)}));
    }
    // No server has a vote before its delay is over.
    for (int lock = 0; lock < quorum_load::kLocks; ++lock) {
      ASSERT_TRUE(Await([&] { return servers_.Having(quorum_load::NameOf(lock)) > 0; },
                        quorum_load::kPatience));
    }
  }

  void End() {
    int held = 0;
    int lost = 0;
    int unreleased = 0;
    for (const auto& child : crew_) child->pipe().WriteLine("stop");
    for (const auto& child : crew_) {
      std::istringstream words(child->pipe().ReadLine(2 * quorum_load::kPatience).value_or(""));
      int its[3] = {};
      words >> its[0] >> its[1] >> its[2];
      EXPECT_TRUE(words) << "a process does not end";
      held += its[0];
      lost += its[1];
      unreleased += its[2];
      const auto status = child->WaitFor(quorum_load::kPatience);
      EXPECT_TRUE(status && status->success());
    }
    history_ = *history::ReadHistory(paths_);
    std::printf("%d holds, %d lost, %d releases without an answer\n", held, lost, unreleased);
  }

  // The longest time in which nobody got anything.
  absl::Duration LongestPause(base::Instant since, base::Instant until) const {
    std::vector<base::Instant> got = {since, until};
    for (const history::HistoryEvent& event : history_.events) {
      const base::Instant at = base::Instant::FromNanos(event.time);
      if (event.what == history::What::kOk && since < at && at < until) got.push_back(at);
    }
    std::sort(got.begin(), got.end());
    size_t longest = 1;
    for (size_t i = 1; i < got.size(); ++i) {
      if (got[i] - got[i - 1] > got[longest] - got[longest - 1]) longest = i;
    }
    const absl::Duration pause = got[longest] - got[longest - 1];
    std::printf("the longest time without an acquisition: %s, up to second %.2f\n",
                absl::FormatDuration(pause).c_str(), absl::ToDoubleSeconds(got[longest] - since));
    return pause;
  }

  const support::TempDir directory_;
  support::QuorumGroup servers_;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<support::Child>> crew_;
  history::History history_;
};

// What may stay on a server that nobody uses any more, and for how long.
absl::Duration MayStay(const std::string& key) {
  if (key.ends_with(":fence")) return absl::Seconds(86'500 + 100);
  if (key.find(":quorum.gone.") != std::string::npos) return quorum_load::kLease;
  if (key.ends_with(":quorum.turn")) return absl::Seconds(60);
  if (key == "redlatch:quorum") return absl::Hours(24 * 30);
  if (key.starts_with("redlatch:client:")) return absl::Hours(24 * 30);
  return absl::ZeroDuration();
}

void ExpectNothingLeft(RedisServer& server) {
  for (int lock = 0; lock < quorum_load::kLocks; ++lock) {
    EXPECT_TRUE(Await(
        [&] {
          return server.Integer({"EXISTS", quorum_load::NameOf(lock)}) == 0;
        },
        2 * quorum_load::kLease));
  }
  for (const redis::Reply& key : server.Command({"KEYS", "*"}).elements) {
    const int64_t left_ms = server.Integer({"PTTL", key.text});
    if (left_ms == -2) continue;  // meanwhile it is gone
    EXPECT_GT(left_ms, 0) << key.text << " has no TTL";
    EXPECT_LE(absl::Milliseconds(left_ms), MayStay(key.text)) << key.text;
  }
}

TEST_F(QuorumLoad, GoesOnWhileEachSecondTwoOfFiveServersAreHit) {
  Begin();
  quorum_load::QuorumNemesis nemesis(servers_);
  const base::Instant since = base::Now();
  for (int i = 0; i < kSeconds; ++i) nemesis.HitTwo();
  const base::Instant until = base::Now();
  support::HistoryWriter notes(paths_.emplace_back(directory_.path() + "/parent"), -1);
  notes.Note({.time = since.nanos(), .what = history::What::kCalm, .amount = kLongestIdle});
  notes.Note({.time = until.nanos(), .what = history::What::kStorm});
  soak::Pass(kDelayTime);  // of the last two
  End();
  soak::ExpectTrue(history_);
  EXPECT_LT(LongestPause(since, until), absl::Seconds(1));
  for (size_t i = 0; i < servers_.size(); ++i) ExpectNothingLeft(servers_[i]);
}

}  // namespace
}  // namespace redlatch
