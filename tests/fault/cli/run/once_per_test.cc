// `redlatch run --once-per`: processes on many hosts try to run a command once per period, with
// clocks that differ by up to an hour, and some of them are killed.
#include <signal.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

class RedlatchOncePerTest : public RedlatchRunTest {
 protected:
  static constexpr int kHosts = 20;
  static constexpr int kPeriods = 200;
  static constexpr absl::Duration kPeriod = absl::Milliseconds(700);
  static constexpr int kKillsOneIn = 16;

  static int64_t PeriodOf(int64_t micros) { return micros / absl::ToInt64Microseconds(kPeriod); }
  int64_t PeriodNow() const { return PeriodOf(absl::ToUnixMicros(absl::Now())); }

  // The tokens of all runs so far.
  std::vector<int64_t> Runs() const {
    std::vector<int64_t> tokens;
    std::ifstream file(runs_path_);
    for (int64_t token = 0; file >> token;) tokens.push_back(token);
    return tokens;
  }

  static pid_t ChildOf(pid_t pid) {
    return std::atoi(TextOf(absl::StrCat("/proc/", pid, "/task/", pid, "/children")).c_str());
  }

  // A host whose clock shows another time: cron starts the command when that clock begins a period.
  // Until `last`, one of 16 runs is killed.
  void Host(int number, int64_t last) {
    std::mt19937_64 random(static_cast<uint64_t>(number));
    const auto shift = absl::Microseconds(
        std::uniform_int_distribution<int64_t>(-3'600'000'000, 3'600'000'000)(random));
    const std::string shift_path = absl::StrCat(directory_.path(), "/shift", number);
    const int64_t micros = absl::ToInt64Microseconds(shift);
    std::ofstream(shift_path, std::ios::binary)
        .write(reinterpret_cast<const char*>(&micros), sizeof micros);
    while (PeriodNow() <= last) {
      const absl::Duration into =
          (absl::Now() + shift - absl::UnixEpoch()) % kPeriod;  // of this host's period
      Sleep(into < absl::ZeroDuration() ? -into : kPeriod - into);
      const auto run =
          Start({"--once-per", absl::FormatDuration(kPeriod), "--lease", "200ms", "--wait", "500ms",
                 "job", "--", "sh", "-c", "echo $REDLATCH_TOKEN >> " + runs_path_},
                {"LD_PRELOAD=" REDLATCH_SHIFTED_CLOCK, "REDLATCH_CLOCK_SHIFT=" + shift_path});
      if (random() % kKillsOneIn == 0) {
        Sleep(absl::Microseconds(random() % 100'000));
        Crash(*run);
        continue;
      }
      const int code = CodeOf(*run);
      EXPECT_TRUE(code == 0 || code == 120) << code << ": " << Errors();
    }
  }

  // Kills both processes at once, so that neither can do anything for the other. Notes a grant that
  // may have been this process's, and whose command may not have started.
  void Crash(support::Child& run) {
    const pid_t keeper = ChildOf(run.pid());
    if (keeper > 0) kill(keeper, SIGKILL);
    run.Kill();
    const std::string token = server_->Text({"GET", "redlatch:2:{job}:fence"});
    const std::lock_guard lock(mutex_);
    killed_.insert(PeriodOf(std::atoll(token.c_str())));
  }

  const std::string runs_path_ = directory_.path() + "/runs";
  std::mutex mutex_;
  std::set<int64_t> killed_;  // the periods of the last grants when a process was killed
};

TEST_F(RedlatchOncePerTest, EachPeriodHasOneRun) {
  const int64_t first = PeriodNow() + 2;
  const int64_t last = first + kPeriods - 1;
  {
    std::vector<std::jthread> hosts;
    for (int i = 0; i < kHosts; ++i) hosts.emplace_back([this, i, last] { Host(i, last); });
  }
  std::map<int64_t, int> runs;
  for (const int64_t token : Runs()) ++runs[PeriodOf(token)];
  int excused = 0;
  for (int64_t period = first; period <= last; ++period) {
    const int count = runs[period];
    EXPECT_LE(count, 1) << "in period " << period - first;
    if (count == 0 && killed_.contains(period)) {
      ++excused;  // the run counts, although its command was killed before it could write
    } else {
      EXPECT_EQ(count, 1) << "in period " << period - first;
    }
  }
  EXPECT_LT(excused, kPeriods / 10);
  EXPECT_FALSE(killed_.empty());
}

TEST_F(RedlatchOncePerTest, KilledRunCounts) {
  const absl::Duration period = YoungPeriod();
  const std::string once_per = absl::StrCat("--once-per=", absl::FormatDuration(period));
  const auto run = Start({once_per, "job", "--", "sh", "-c", "echo on; sleep 60"});
  ASSERT_EQ(run->pipe().ReadLine(), "on");
  const pid_t keeper = ChildOf(run->pid());
  ASSERT_GT(keeper, 0);
  kill(keeper, SIGKILL);
  run->Kill();
  const absl::Duration left = period - ServerTime() % period;
  EXPECT_GT(server_->Integer({"PTTL", "job"}), absl::ToInt64Milliseconds(left) - 30'000);
  EXPECT_EQ(Code({once_per, "--wait", "0", "job", "--", "echo", "wrong"}), 120);
}

}  // namespace
}  // namespace redlatch
