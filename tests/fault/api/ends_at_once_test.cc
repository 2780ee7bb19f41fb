// Eight processes share a hot lock with default options. All but one or three of them end within
// milliseconds, as a batch of workers does, and the others must not wait for long.
// REDLATCH_FULL_BARS=1 tries each combination 50 times, and makes no allowance for a busy machine;
// REDLATCH_TRIALS says how many trials there are otherwise.
#include <csignal>

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::Child;

constexpr int kProcesses = 8;
constexpr absl::Duration kLongestWait = absl::Milliseconds(2500);
constexpr absl::Duration kLongestWaitAfterExit = absl::Milliseconds(200);
constexpr absl::Duration kLongestFree = absl::Milliseconds(300);

void Spin(absl::Duration time) {
  const base::Instant until = base::Now() + time;
  while (base::Now() < until) {
  }
}

// Takes the lock again and again. Ends as its last line says. After "report" it says how long its
// longest wait was, in microseconds.
REDLATCH_CHILD(Sharer) {
  Client client = Connect(args.at(0));
  SimpleLock lock(client, "lock");
  const absl::Duration section = absl::Microseconds(std::stoi(args.at(1)));
  const absl::Duration think = absl::Microseconds(std::stoi(args.at(2)));
  parent.WriteLine("ready");
  parent.ReadLine();
  std::atomic<int> end = 0;
  std::jthread reader([&] {
    const std::string line = parent.ReadLine(absl::Minutes(2)).value_or("_exit");
    end = line == "report" ? 1 : line == "exit" ? 2 : 3;
  });
  absl::Duration longest;
  for (int left = 2; left > 0;) {
    const int ends = end;
    if (ends == 2) std::exit(0);
    if (ends == 3) _exit(0);
    if (ends == 1) --left;
    const base::Instant began = base::Now();
    lock.lock();
    longest = std::max(longest, base::Now() - began);
    Spin(section);
    lock.unlock();
    Spin(think);
  }
  parent.WriteLine(absl::StrCat(absl::ToInt64Microseconds(longest)));
  return 0;
}

// Returns 1 if the lock is free although a live client waits for it.
constexpr char kIsIdle[] = R"(
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= 'redlatch:free' then return 0 end
for _, grant in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if redis.call('PUBSUB', 'NUMSUB', 'redlatch:' .. string.sub(grant, 1, 32))[2] > 0 then
    return 1
  end
end
return 0)";

struct Outcome {
  absl::Duration longest_wait;
  absl::Duration longest_free;
  // What a busy machine adds: how long the processes took to end, and how late the watcher was.
  absl::Duration ending;
  absl::Duration latest;
};

struct EndsAtOnce : ::testing::TestWithParam<std::tuple<std::string, int>> {
  static void End(Child& child, const std::string& way) {
    if (way == "SIGKILL") return child.Signal(SIGKILL);
    if (way == "SIGTERM") return child.Signal(SIGTERM);
    child.pipe().WriteLine(way);
  }

  Outcome Try(absl::Duration section, absl::Duration think) {
    server_->Do({"FLUSHALL"});
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i < kProcesses; ++i) {
      children.push_back(support::SpawnChild(
          "Sharer", {server_->url(), absl::StrCat(absl::ToInt64Microseconds(section)),
                     absl::StrCat(absl::ToInt64Microseconds(think))}));
    }
    for (const auto& child : children) EXPECT_EQ(child->pipe().ReadLine(), "ready");
    for (const auto& child : children) child->pipe().WriteLine("go");
    Sleep(absl::Milliseconds(200));  // until the processes contend in their usual way

    Outcome outcome;
    std::atomic<bool> done = false;
    std::thread watcher([&] {
      base::Instant since = base::Instant::Infinite();
      while (!done) {
        const base::Instant began = base::Now();
        const bool idle = server_->Integer({"EVAL", kIsIdle, "2", "lock", kQueue}) == 1;
        const base::Instant now = base::Now();
        since = idle ? std::min(since, now) : base::Instant::Infinite();
        if (idle) outcome.longest_free = std::max(outcome.longest_free, now - since);
        Sleep(absl::Milliseconds(1));
        outcome.latest = std::max(outcome.latest, base::Now() - began);
      }
    });
    const size_t survivors = std::get<1>(GetParam());
    for (size_t i = survivors; i < children.size(); ++i) End(*children[i], way_);
    for (size_t i = 0; i < survivors; ++i) children[i]->pipe().WriteLine("report");
    outcome.ending = TimeOf([&] {
      for (size_t i = survivors; i < children.size(); ++i) children[i]->Wait();
    });
    for (size_t i = 0; i < survivors; ++i) {
      const auto wait = children[i]->pipe().ReadLine(absl::Minutes(1));
      EXPECT_TRUE(wait) << "a survivor still waits";
      if (!wait) continue;
      outcome.longest_wait = std::max(outcome.longest_wait, absl::Microseconds(std::stoll(*wait)));
    }
    done = true;
    watcher.join();
    return outcome;
  }

  static constexpr char kQueue[] = "redlatch:2:{lock}:simple.queue";
  const std::string way_ = std::get<0>(GetParam());
  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
};

TEST_P(EndsAtOnce, OthersWaitForOneClaimAtMost) {
  constexpr std::array kThinks = {absl::Microseconds(10), absl::ZeroDuration(),
                                  absl::Microseconds(100), absl::Milliseconds(1)};
  constexpr std::array kSections = {absl::ZeroDuration(), absl::Microseconds(20)};
  const int64_t combinations = kThinks.size() * kSections.size();
  const int64_t trials =
      support::FullBars() ? 50 * combinations : support::FromEnvironment("REDLATCH_TRIALS", 4);
  std::vector<absl::Duration> waits;
  absl::Duration longest_free;
  for (int64_t i = 0; i < trials && !HasFatalFailure(); ++i) {
    const absl::Duration think = kThinks[i % kThinks.size()];
    const absl::Duration section = kSections[i / kThinks.size() % kSections.size()];
    const Outcome outcome = Try(section, think);
    const auto what = absl::StrCat("think ", absl::FormatDuration(think), ", section ",
                                   absl::FormatDuration(section));
    // Each of the processes may be as late as the watcher.
    const absl::Duration late =
        support::FullBars() ? absl::ZeroDuration() : kProcesses * outcome.latest;
    const absl::Duration busy = support::FullBars() ? absl::ZeroDuration() : outcome.ending + late;
    EXPECT_LE(outcome.longest_wait, busy + (way_ == "exit" ? kLongestWaitAfterExit : kLongestWait))
        << what;
    EXPECT_LE(outcome.longest_free, late + kLongestFree) << what;
    waits.push_back(outcome.longest_wait);
    longest_free = std::max(longest_free, outcome.longest_free);
  }
  std::ranges::sort(waits);
  RecordProperty("median_wait", absl::FormatDuration(waits[waits.size() / 2]));
  RecordProperty("longest_wait", absl::FormatDuration(waits.back()));
  RecordProperty("longest_free", absl::FormatDuration(longest_free));
  std::printf("%s: waits of %s (median) and %s (longest); free for %s\n", way_.c_str(),
              absl::FormatDuration(waits[waits.size() / 2]).c_str(),
              absl::FormatDuration(waits.back()).c_str(),
              absl::FormatDuration(longest_free).c_str());
}

INSTANTIATE_TEST_SUITE_P(By, EndsAtOnce,
                         ::testing::Combine(::testing::Values("exit", "_exit", "SIGKILL",
                                                              "SIGTERM"),
                                            ::testing::Values(1, 3)),
                         [](const auto& its) {
                           std::string way = std::get<0>(its.param);
                           way.erase(0, way.find_first_not_of('_'));
                           return absl::StrCat(std::get<0>(its.param)[0] == '_' ? "Now" : "", way,
                                               "With", std::get<1>(its.param), "Left");
                         });

}  // namespace
}  // namespace redlatch
