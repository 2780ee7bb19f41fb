// A bar: processes that take random sets of the same names neither lock each other up nor starve.
// REDLATCH_FULL_BARS=1: for a minute; else for some seconds.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/multi_lock.h"
#include "src/base/clock.h"
#include "tests/support/child_entry.h"
#include "tests/support/punctuality.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/subprocess.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

constexpr int kSubsetProcesses = 8;
constexpr unsigned kSubsetNames = 6;
constexpr double kSubsetBar = 20;  // times the mean wait
constexpr absl::Duration kSubsetPatience = absl::Seconds(30);

// Takes random sets for so many seconds, and tells how many, how long it waited for all, and at
// most. A key of each name says who is in it: there is never one already.
REDLATCH_CHILD(TakesSets) {
  const std::string& url = args.at(0);
  const std::string& socket = args.at(1);
  const absl::Duration time = absl::Seconds(std::stoi(args.at(2)));
  std::mt19937 random(static_cast<unsigned>(std::stoul(args.at(3))));
  const Client client = *Client::Connect(url);
  auto inside = support::RawConnection::ToSocket(socket);
  std::array<std::unique_ptr<MultiLock>, 1U << kSubsetNames> locks;
  std::array<std::vector<std::string>, 1U << kSubsetNames> marks;
  for (unsigned set = 1; set < locks.size(); ++set) {
    std::vector<std::string> names;
    marks[set] = {"MSETNX"};
    for (unsigned i = 0; i < kSubsetNames; ++i) {
      if ((set & (1U << i)) == 0) continue;
      names.push_back(absl::StrCat("name:", i));
      marks[set].push_back(absl::StrCat("inside:", i));
      marks[set].emplace_back("x");
    }
    locks[set] = std::make_unique<MultiLock>(client, names);
  }
  parent.WriteLine("ready");
  if (parent.ReadLine(kSubsetPatience) != "go") return 1;
  int64_t times = 0;
  absl::Duration all;
  absl::Duration longest;
  const base::Instant end = base::Now() + time;
  for (base::Instant asked = base::Now(); asked < end; asked = base::Now()) {
    const size_t set = 1 + random() % (locks.size() - 1);
    auto lease = locks[set]->Acquire({.wait = kSubsetPatience});
    EXPECT_TRUE(lease.ok()) << lease.status();
    if (!lease.ok()) return 1;
    const absl::Duration waited = base::Now() - asked;
    ++times;
    all += waited;
    longest = std::max(longest, waited);
    EXPECT_EQ(inside.Command(marks[set]).integer, 1) << "somebody else is in it";
    std::vector<std::string> leave = {"DEL"};
    for (size_t i = 1; i < marks[set].size(); i += 2) leave.push_back(marks[set][i]);
    inside.Command(leave);
    EXPECT_TRUE(lease->Release().ok());
  }
  parent.WriteLine(absl::StrCat(times, " ", absl::ToInt64Microseconds(all), " ",
                                absl::ToInt64Microseconds(longest)));
  return 0;
}

TEST(MultiSubsets, NobodyWaitsForMuchLongerThanOthers) {
  const int seconds = support::FullBars() ? 60 : 4;
  const uint32_t seed = support::Seed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  const auto server = support::RedisServer::Start();
  std::vector<std::unique_ptr<support::Child>> crew;
  for (int i = 0; i < kSubsetProcesses; ++i) {
    crew.push_back(support::SpawnChild("TakesSets",
                                       {server->url(), server->socket_path(), absl::StrCat(seconds),
                                        absl::StrCat(seed + static_cast<unsigned>(i))}));
  }
  for (const auto& child : crew) ASSERT_EQ(child->pipe().ReadLine(kSubsetPatience), "ready");
  redis::Punctuality punctuality;
  for (const auto& child : crew) child->pipe().WriteLine("go");
  double times = 0;
  double all_us = 0;
  double longest_us = 0;
  double fewest = 1e18;
  for (const auto& child : crew) {
    std::istringstream words(
        child->pipe().ReadLine(absl::Seconds(seconds) + kSubsetPatience).value_or(""));
    double its_times = 0;
    double its_all = 0;
    double its_longest = 0;
    words >> its_times >> its_all >> its_longest;
    std::printf("a process's longest wait: %.2f ms\n", its_longest / 1000);
    EXPECT_TRUE(words) << "a process does not end";
    times += its_times;
    all_us += its_all;
    fewest = std::min(fewest, its_times);
    longest_us = std::max(longest_us, its_longest);
    const auto status = child->WaitFor(kSubsetPatience);
    EXPECT_TRUE(status && status->success());
  }
  const double mean_us = all_us / times;
  std::printf(
      "%.0f sets in %d s, %.0f the fewest of a process; waits: mean %.2f ms, longest %.2f "
      "ms: %.1f times the mean\n",
      times, seconds, fewest, mean_us / 1000, longest_us / 1000, longest_us / mean_us);
  // How long a thread that only sleeps was kept from running tells a machine that is busy from a
  // lock that starves somebody.
  punctuality.Note(base::Instant(), base::Instant() + absl::Microseconds(longest_us));
  const auto excused = punctuality.Within(absl::Microseconds(kSubsetBar * mean_us));
  std::printf("%s\n", excused.message());
  if (support::FullBars()) {
    EXPECT_LE(longest_us, kSubsetBar * mean_us);
  } else {
    EXPECT_TRUE(excused);
  }
}

}  // namespace
}  // namespace redlatch
