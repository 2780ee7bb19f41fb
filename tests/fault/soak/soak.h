// One run of a soak: many processes work while network, server and the processes themselves are
// disturbed at random; then all is whole again for a while, and they end.
//
//   REDLATCH_SOAK=180        seconds of disturbance, by 16 processes. Where unset: 6 s, 6 processes
//   REDLATCH_SOAK_SEED=...   the one that a failure printed
//   REDLATCH_SOAK_LOG=1      print what was disturbed and when, also where nothing fails
#ifndef REDLATCH_TESTS_FAULT_SOAK_SOAK_H_
#define REDLATCH_TESTS_FAULT_SOAK_SOAK_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/fault/soak/crew.h"
#include "tests/fault/soak/nemesis.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/history_checker.h"
#include "tests/support/lock_history.h"
#include "tests/support/redis_server.h"

namespace redlatch::soak {

// Until the client's connections are made again; and for threads that run late.
constexpr absl::Duration kSlack = absl::Seconds(1);

class SoakTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& line : words_) std::printf("  %s\n", line.c_str());
    if (HasFailure() || FromEnvironment("REDLATCH_SOAK_LOG", 0) != 0) {
      std::fputs(log_.c_str(), stderr);
    }
  }

  // Returns when all have ended.
  void Run(Forceable forceable = {}) {
    Dice dice(SeedOfRun());
    Crew crew(seconds_ > 0 ? 16 : 6, server_->port(), dice.Seed(), longest_lease_);
    Nemesis nemesis(dice.Seed(), *server_, crew, longest_lease_, std::move(forceable));
    nemesis.Rage(absl::Seconds(seconds_ > 0 ? seconds_ : 6));
    calm_ = base::Now();
    Pass(bound_ + kSlack);
    until_ = base::Now();
    words_ = crew.Dismiss(absl::Seconds(30));
    history_ = {.acquisitions = crew.History(), .forced = nemesis.forced()};
    log_ = nemesis.log();
    processes_ = crew.lives();
  }

  // Nobody who waited was forgotten; and somebody got something when all was whole.
  void ExpectProgress() {
    Report("progress", support::CheckProgress(history_, calm_, until_, bound_));
    int64_t held = 0;
    int64_t calm_held = 0;
    for (const support::Acquisition& one : history_.acquisitions) {
      if (one.outcome != support::Acquisition::Outcome::kHeld) continue;
      ++held;
      if (calm_ < one.invoked && one.invoked < until_) ++calm_held;
    }
    EXPECT_GT(calm_held, 0);
    std::printf("%zu calls, %lld holds by %d processes; %lld of them in %.1f s of calm\n",
                history_.acquisitions.size(), static_cast<long long>(held), processes_,
                static_cast<long long>(calm_held), absl::ToDoubleSeconds(until_ - calm_));
  }

  const int64_t seconds_ = FromEnvironment("REDLATCH_SOAK", 0);
  const absl::Duration longest_lease_ = absl::Seconds(seconds_ > 0 ? 2 : 1);
  // The head of a queue asks again when the lease of whoever died could be over.
  const absl::Duration bound_ = longest_lease_ + longest_lease_ / 3 + kSlack;
  const std::unique_ptr<support::RedisServer> server_ =
      support::RedisServer::Start({.append_only = true, .config = {"appendfsync always"}});

  base::Instant calm_;   // from here on nothing is disturbed
  base::Instant until_;  // when all are told to end
  support::History history_;
  int processes_ = 0;

 private:
  std::vector<std::string> words_;
  std::string log_;
};

}  // namespace redlatch::soak

#endif  // REDLATCH_TESTS_FAULT_SOAK_SOAK_H_
