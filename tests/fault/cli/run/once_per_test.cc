// `redlatch run --once-per`: processes on many hosts try to run a command once per period, with
// clocks that differ by up to an hour, and some of them are killed.
//
// REDLATCH_TEST_SCALE=10   2,000 periods, 24 minutes. Default: 200 periods
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

struct RedlatchOncePerTest : RedlatchRunTest {
  static constexpr int kHosts = 20;
  const int periods_ = support::Scaled(200);
  static constexpr absl::Duration kPeriod = absl::Milliseconds(700);
  static constexpr int kKillsOneIn = 4;

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
  // Until `last`, one of four is killed.
  void Host(int number, int64_t last) {
    std::mt19937_64 random(static_cast<uint64_t>(number));
    const auto shift = absl::Microseconds(
        std::uniform_int_distribution<int64_t>(-3'600'000'000, 3'600'000'000)(random));
    const std::string shift_path = absl::StrCat(directory_.path(), "/shift", number);
    const int64_t micros = absl::ToInt64Microseconds(shift);
    std::ofstream(shift_path, std::ios::binary)
        .write(reinterpret_cast<const char*>(&micros), sizeof micros);
    const Words clock = {"LD_PRELOAD=" REDLATCH_SHIFTED_CLOCK, "REDLATCH_CLOCK_SHIFT=" + shift_path,
                         "ASAN_OPTIONS=verify_asan_link_order=0"};
    ExpectShifted(absl::StrCat("host", number), clock, shift);
    while (PeriodNow() <= last) {
      const absl::Duration into =
          (absl::Now() + shift - absl::UnixEpoch()) % kPeriod;  // of this host's period
      Sleep(into < absl::ZeroDuration() ? -into : kPeriod - into);
      const int64_t began = PeriodNow();
      const auto run =
          Start({"--once-per", absl::FormatDuration(kPeriod), "--lease", "200ms", "--wait", "500ms",
                 "job", "--", "sh", "-c", "echo $REDLATCH_TOKEN >> " + runs_path_},
                clock);
      ++tries_;
      if (random() % kKillsOneIn == 0) {
        // Most of them are killed when a period has just begun: one of those has been granted it.
        Sleep(absl::Microseconds(random() % 16'000) +
              (random() % 4 > 0 ? kPeriod - (absl::Now() - absl::UnixEpoch()) % kPeriod
                                : absl::ZeroDuration()));
        Crash(*run);
        continue;
      }
      const int code = CodeOf(*run);
      EXPECT_TRUE(code == 0 || code == 120 || code == 122) << code << ": " << Errors();
      const std::lock_guard lock(mutex_);
      if (code == 122) {  // on a busy machine it was renewed too late, and ended like one killed
        for (int64_t period = began; period <= PeriodNow(); ++period) killed_.insert(period);
      } else if (PeriodNow() == began) {
        tried_.insert(began);
      }
    }
  }

  // Kills both processes at once, so that neither can do anything for the other. If they had the
  // lock, notes the period: the command may not have started.
  void Crash(support::Child& run) {
    const pid_t keeper = ChildOf(run.pid());
    if (keeper > 0) kill(keeper, SIGKILL);
    if (run.pid() > 0) ++kills_;
    run.Kill();
    const std::string client = server_->Text({"GET", "job"}).substr(0, 32);
    const std::string token = server_->Text({"GET", "redlatch:2:{job}:fence"});
    const Words words = DescriptionOf(client);
    if (keeper <= 0 || words[0] != absl::StrCat(keeper)) return;
    const std::lock_guard lock(mutex_);
    killed_.insert(PeriodOf(std::atoll(token.c_str())));
  }

  // A client's process, when it began by its own clock, its host, and its program.
  Words DescriptionOf(const std::string& client) const {
    return absl::StrSplit(server_->Text({"GET", "redlatch:client:" + client}), ' ');
  }

  // Clients with that environment see a clock with that shift.
  void ExpectShifted(const std::string& lock, const Words& environment, absl::Duration shift) {
    const auto run = Start({lock, "--", "sh", "-c", "echo on; exec sleep 60"}, environment);
    EXPECT_EQ(run->pipe().ReadLine(absl::Seconds(30)), "on");
    const Words words = DescriptionOf(server_->Text({"GET", lock}).substr(0, 32));
    ASSERT_GT(words.size(), 1);
    const absl::Time began = absl::FromUnixMicros(std::stoll(words[1])) - shift;
    EXPECT_LT(absl::AbsDuration(absl::Now() - began), absl::Seconds(30));
  }

  const std::string runs_path_ = directory_.path() + "/runs";
  std::atomic<int> tries_ = 0;
  std::atomic<int> kills_ = 0;
  std::mutex mutex_;
  std::set<int64_t> killed_;  // the periods of runs that were killed
  std::set<int64_t> tried_;   // the periods that had a whole try: they must have a run
};

TEST_F(RedlatchOncePerTest, EachPeriodHasOneRun) {
  const int64_t first = PeriodNow() + 2;
  const int64_t last = first + periods_ - 1;
  {
    std::vector<std::jthread> hosts;
    for (int i = 0; i < kHosts; ++i) hosts.emplace_back([this, i, last] { Host(i, last); });
  }
  std::map<int64_t, int> runs;
  for (const int64_t token : Runs()) ++runs[PeriodOf(token)];
  int excused = 0;
  int untried = 0;
  for (int64_t period = first; period <= last; ++period) {
    const int count = runs[period];
    EXPECT_LE(count, 1) << "in period " << period - first;
    if (count == 0 && killed_.contains(period)) {
      ++excused;  // the run counts, although its command was killed before it could write
    } else if (count == 0 && !tried_.contains(period)) {
      ++untried;  // on a busy machine
    } else {
      EXPECT_EQ(count, 1) << "in period " << period - first;
    }
  }
  EXPECT_GT(kills_, 0);
  EXPECT_LT(untried, periods_ / 2);
  std::printf(
      "%d periods, %d of them without a try; %d tries, %d of them killed, %d periods whose "
      "run was killed first\n",
      periods_, untried, tries_.load(), kills_.load(), excused);
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
