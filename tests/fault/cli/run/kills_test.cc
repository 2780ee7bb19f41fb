// Kills `redlatch run` at random moments: while it starts, waits, runs or ends. None of its
// processes outlives the lock, and its exit code is one that the manual promises.
#include <dirent.h>

#include "src/base/random.h"
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

struct RedlatchRunKillsTest : RedlatchRunTest {
  struct Process {
    pid_t pid;
    std::string name;
  };

  // All processes that a run has started, found by a variable in their environment; with
  // `commands`, only the command and its descendants.
  static std::vector<Process> StartedBy(const std::string& mark, bool commands) {
    std::vector<Process> found;
    DIR* const directory = opendir("/proc");
    while (const dirent* entry = readdir(directory)) {
      int pid = 0;
      if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
      const std::string proc = absl::StrCat("/proc/", pid);
      const std::string environment = TextOf(proc + "/environ");
      if (environment.find(mark) == std::string::npos) continue;
      if (commands && environment.find("REDLATCH_TOKEN=") == std::string::npos) continue;
      std::string name = TextOf(proc + "/comm");
      if (name.empty()) continue;  // it has ended meanwhile
      found.push_back({pid, std::move(name)});
    }
    closedir(directory);
    return found;
  }
  static std::string Listed(const std::vector<Process>& processes) {
    return absl::StrJoin(processes, ", ", [](std::string* out, const Process& each) {
      absl::StrAppend(out, each.pid, " ", each.name);
    });
  }

  // The keeper if `of_keeper` and there already is one; else the front.
  static pid_t Victim(pid_t front, bool of_keeper) {
    int keeper = 0;
    const std::string children =
        TextOf(absl::StrCat("/proc/", front, "/task/", front, "/children"));
    const bool has_one = absl::SimpleAtoi(children.substr(0, children.find(' ')), &keeper);
    return of_keeper && has_one ? keeper : front;
  }

  static bool AllEnd(const std::string& mark, absl::Duration timeout) {
    return Await([&] { return StartedBy(mark, /*commands=*/false).empty(); }, timeout);
  }
};

TEST_F(RedlatchRunKillsTest, NothingOutlivesTheLock) {
  const char* const given = std::getenv("REDLATCH_SOAK_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : base::RandomBits();
  SCOPED_TRACE(absl::StrCat("REDLATCH_SOAK_SEED=", seed));
  std::mt19937_64 random(seed);
  const Client client = Connect(server_->url());

  const int rounds = support::Scaled(support::FullBars() ? 200 : 25);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    const std::string mark = absl::StrCat("REDLATCH_TEST_RUN=", seed, ".", round, ".");
    const auto run =
        Start(Join({"--lease", "600ms", "--grace", "50ms", "job", "--"}, Family(":")), {mark});
    const bool of_keeper = random() % 2 == 0;
    const auto when = absl::Microseconds(static_cast<int64_t>(random() % 60'000));
    base::Parker().ParkUntil(base::Now() + when);
    const pid_t front = run->pid();
    const pid_t victim = front > 0 ? Victim(front, of_keeper) : 0;
    if (victim > 0) kill(victim, SIGKILL);

    const auto next = Must(SimpleLock(client, "job").Acquire({.wait = absl::Seconds(30)}));
    const std::vector<Process> overlapping = StartedBy(mark, /*commands=*/true);
    EXPECT_THAT(overlapping, IsEmpty()) << "run beside the next holder: " << Listed(overlapping);
    // The first code is that of the killed front. The others are those of a front whose keeper was
    // killed: while the command runs, or before.
    const int code = CodeOf(*run);
    if (victim == front) {
      EXPECT_EQ(code, 128 + SIGKILL);
    } else {
      EXPECT_THAT(code, AnyOf(122, 125));
    }
    EXPECT_TRUE(AllEnd(mark, absl::Seconds(10))) << Listed(StartedBy(mark, /*commands=*/false));
  }
}

}  // namespace
}  // namespace redlatch
