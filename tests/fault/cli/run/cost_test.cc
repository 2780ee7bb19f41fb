// A bar: `redlatch run NAME -- true` takes at most three times as long as `redis-cli PING`, both as
// whole processes. REDLATCH_FULL_BARS=1 runs each 200 times.
#include <spawn.h>

#include <iostream>

#include "tests/redis/redis/embedded/home.h"

namespace redlatch {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// How long the program takes, from its start to its end; infinite if it fails.
absl::Duration TimeOf(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t silence;
  posix_spawn_file_actions_init(&silence);
  posix_spawn_file_actions_addopen(&silence, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  int status = -1;
  const base::Instant begin = base::Now();
  const int failed = posix_spawnp(&pid, argv[0], &silence, nullptr, argv.data(), environ);
  if (failed == 0) waitpid(pid, &status, 0);
  const absl::Duration took = base::Now() - begin;
  posix_spawn_file_actions_destroy(&silence);
  return status == 0 ? took : absl::InfiniteDuration();
}

absl::Duration LowerQuartile(std::vector<absl::Duration> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

TEST(RedlatchRunCostTest, IsAtMostThreeTimesThatOfAPing) {
  if (kSanitized) GTEST_SKIP() << "the bar does not hold with sanitizers";
  const redis::EmbeddedHome home;
  const std::vector<std::string> run = {
      REDLATCH_COMMAND, "run", "--server", "embedded:" + home.directory(), "job", "--", "true"};
  const std::string client = redis::FindServerPrograms()->client;
  if (client.empty()) GTEST_SKIP() << "there is no redis-cli";
  const std::vector<std::string> ping = {client, "-s", home.Path("redis.sock"), "PING"};
  ASSERT_LT(TimeOf(run), absl::InfiniteDuration());  // starts the server
  ASSERT_LT(TimeOf(ping), absl::InfiniteDuration());

  std::vector<absl::Duration> runs;
  std::vector<absl::Duration> pings;
  // They take turns, so that other load on the machine affects both.
  for (int i = support::FullBars() ? 200 : 40; i > 0; --i) {
    runs.push_back(TimeOf(run));
    pings.push_back(TimeOf(ping));
  }
  const double ratio = absl::FDivDuration(LowerQuartile(runs), LowerQuartile(pings));
  std::cout << "redlatch run " << LowerQuartile(runs) << ", redis-cli PING " << LowerQuartile(pings)
            << ", ratio " << ratio << "\n";
  EXPECT_LE(ratio, support::FullBars() ? 3 : 4)
      << LowerQuartile(runs) << " against " << LowerQuartile(pings);
}

}  // namespace
}  // namespace redlatch
