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

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/fault/soak/crew.h"
#include "tests/fault/soak/nemesis.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/history_check/history_checker.h"
#include "tests/support/history_check/history_event.h"
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
  void Run(std::string worker, Forceable forceable = {}) {
    Dice dice(SeedOfRun());
    Crew crew(std::move(worker), seconds_ > 0 ? 16 : 6, server_->port(), dice.Seed(),
              longest_lease_);
    Nemesis nemesis(dice.Seed(), *server_, crew, longest_lease_, std::move(forceable));
    nemesis.Rage(absl::Seconds(seconds_ > 0 ? seconds_ : 6));
    calm_ = base::Now();
    crew.notes().Note({.what = history::What::kCalm, .amount = absl::ToInt64Nanoseconds(bound_)});
    Pass(bound_ + kSlack);
    until_ = base::Now();
    crew.notes().Note({.what = history::What::kStorm});
    words_ = crew.Dismiss(absl::Seconds(30));
    history_ = crew.History();
    ASSERT_TRUE(history_.ok()) << history_.status();
    log_ = nemesis.log();
    processes_ = crew.lives();
  }

  // The history is true, and something was acquired once all was whole.
  void ExpectAllIsTrue() {
    ExpectTrue(*history_);
    int64_t held = 0;
    int64_t calm_held = 0;
    for (const history::HistoryEvent& event : history_->events) {
      if (event.what != history::What::kOk || event.until != 0) continue;
      ++held;
      if (calm_.nanos() < event.time && event.time < until_.nanos()) ++calm_held;
    }
    EXPECT_GT(calm_held, 0);
    std::printf(
        "%zu events, %lld holds by %d processes; %lld of them in %.1f s of calm, in which nothing "
        "was free for more than %lld us while a call waited\n",
        history_->events.size(), static_cast<long long>(held), processes_,
        static_cast<long long>(calm_held), absl::ToDoubleSeconds(until_ - calm_),
        static_cast<long long>(history::Judge(*history_).longest_idle() / 1000));
  }

  const int64_t seconds_ = FromEnvironment("REDLATCH_SOAK", 0);
  const absl::Duration longest_lease_ = absl::Seconds(seconds_ > 0 ? 2 : 1);
  // The head of a queue asks again when the lease of whoever died could be over.
  const absl::Duration bound_ = longest_lease_ + longest_lease_ / 3 + kSlack;
  const std::unique_ptr<support::RedisServer> server_ =
      support::RedisServer::Start({.append_only = true, .config = {"appendfsync always"}});

  base::Instant calm_;   // from here on nothing is disturbed
  base::Instant until_;  // when all are told to end
  absl::StatusOr<history::History> history_;
  int processes_ = 0;

 private:
  std::vector<std::string> words_;
  std::string log_;
};

}  // namespace redlatch::soak

#endif  // REDLATCH_TESTS_FAULT_SOAK_SOAK_H_
