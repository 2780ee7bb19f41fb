// Many processes lock in every way that there is, while network, server and the processes
// themselves are disturbed at random; then the history of it all is checked, see
// tests/support/history_checker.h.
//
//   REDLATCH_SOAK=180        seconds of disturbance, by 16 processes. Where unset: 6 s, 6 processes
//   REDLATCH_SOAK_SEED=...   the one that a failure printed
//   REDLATCH_SOAK_LOG=1      print what was disturbed and when, also where nothing fails
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "tests/fault/soak/child.h"
#include "tests/fault/soak/crew.h"
#include "tests/fault/soak/nemesis.h"
#include "tests/fault/soak/plan.h"
#include "tests/fault/soak/worker.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_checker.h"
#include "tests/support/lock_history.h"
#include "tests/support/redis_server.h"

namespace redlatch::soak {
namespace {

// Until the client's connections are made again; and for threads that run late.
constexpr absl::Duration kSlack = absl::Seconds(1);
constexpr size_t kShown = 10;

REDLATCH_CHILD(SoakWorker) { return RunWorkers<Worker>(parent, args); }

class Soak : public ::testing::Test {
 protected:
  void Report(const char* what, const std::vector<std::string>& violations) {
    for (size_t i = 0; i < std::min(kShown, violations.size()); ++i) {
      ADD_FAILURE() << what << ": " << violations[i];
    }
    if (violations.size() > kShown) ADD_FAILURE() << what << ": " << violations.size() << " in all";
  }

  // All that has no business to be there, once every lease is over.
  std::string AwaitOnlyFences(absl::Duration patience) {
    const base::Instant until = base::Now() + patience;
    std::vector<std::string> left;
    do {
      left.clear();
      for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
        EXPECT_NE(server_->Integer({"PTTL", key.text}), -1) << key.text;
        const bool stays = key.text.ends_with(":fence") || key.text.starts_with("redlatch:client:");
        if (!stays) left.push_back(key.text);
      }
    } while (!left.empty() && base::Now() < until);
    return absl::StrJoin(left, ", ");
  }

  const std::unique_ptr<support::RedisServer> server_ =
      support::RedisServer::Start({.append_only = true, .config = {"appendfsync always"}});
};

TEST_F(Soak, OfManyProcessesUnderEveryFaultNeverShowsTwoHolders) {
  const int64_t seconds = FromEnvironment("REDLATCH_SOAK", 0);
  const int processes = seconds > 0 ? 16 : 6;
  const absl::Duration longest_lease = absl::Seconds(seconds > 0 ? 2 : 1);
  const auto seed = static_cast<uint64_t>(FromEnvironment(
      "REDLATCH_SOAK_SEED", static_cast<int64_t>(base::RandomBits() % 1'000'000'000)));
  std::printf("REDLATCH_SOAK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);

  Dice dice(seed);
  Crew crew(processes, server_->port(), dice.Seed(), longest_lease);
  Nemesis nemesis(dice.Seed(), *server_, crew, longest_lease);
  nemesis.Rage(absl::Seconds(seconds > 0 ? seconds : 6));
  const base::Instant calm = base::Now();

  // The head of a queue asks again when the lease of whoever died could be over.
  const absl::Duration bound = longest_lease + longest_lease / 3 + kSlack;
  Pass(bound + kSlack);
  const base::Instant until = base::Now();
  const std::vector<std::string> words = crew.Dismiss(absl::Seconds(30));
  const base::Instant ended = base::Now();
  const std::string left = AwaitOnlyFences(2 * longest_lease + kSlack);
  EXPECT_EQ(left, "");
  const absl::Duration cleaning = base::Now() - ended;

  const support::History history{.acquisitions = crew.History(), .forced = nemesis.forced()};
  Report("exclusion", support::CheckExclusion(history));
  Report("tokens", support::CheckTokens(history));
  Report("progress", support::CheckProgress(history, calm, until, bound));

  // For people: once all are connected again, only a lost wake-up could take long.
  absl::Duration idle = absl::Milliseconds(5);
  const auto free_for = [&](absl::Duration time) {
    return support::CheckProgress(history, calm + kSlack, until, time);
  };
  while (idle < bound && !free_for(idle).empty()) idle *= 2;
  std::printf("no lock was free for %s while somebody waited\n",
              absl::FormatDuration(idle).c_str());

  int64_t held = 0;
  int64_t calm_held = 0;
  for (const support::Acquisition& one : history.acquisitions) {
    if (one.outcome != support::Acquisition::Outcome::kHeld) continue;
    ++held;
    if (calm < one.invoked && one.invoked < until) ++calm_held;
  }
  EXPECT_GT(calm_held, 0);
  std::printf(
      "%zu calls, %lld holds by %d processes; %lld of them in %.1f s of calm; keys gone "
      "after %.1f s\n",
      history.acquisitions.size(), static_cast<long long>(held), crew.lives(),
      static_cast<long long>(calm_held), absl::ToDoubleSeconds(until - calm),
      absl::ToDoubleSeconds(cleaning));
  for (const std::string& line : words) std::printf("  %s\n", line.c_str());
  if (HasFailure() || FromEnvironment("REDLATCH_SOAK_LOG", 0) != 0) {
    std::fputs(nemesis.log().c_str(), stderr);
  }
}

}  // namespace
}  // namespace redlatch::soak
