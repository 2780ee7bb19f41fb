// Many processes take permits in every way that there is, while network, server and the processes
// themselves are disturbed at random; then the history of it all is checked: never more permits at
// a time than there are, and all of them back when the last lease is over. Environment:
// soak_test.cc.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/semaphore.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "tests/fault/soak/child.h"
#include "tests/fault/soak/crew.h"
#include "tests/fault/soak/nemesis.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_checker.h"
#include "tests/support/lock_history.h"
#include "tests/support/redis_server.h"

namespace redlatch::soak {
namespace {

// Until the client's connections are made again; and for threads that run late.
constexpr absl::Duration kSlack = absl::Seconds(1);
constexpr size_t kShown = 10;
constexpr absl::Duration kShortestLease = absl::Milliseconds(300);

const std::vector<int>& Capacities() {
  static const std::vector<int> capacities = {3, 5};
  return capacities;
}
constexpr int kMostPermits = 3;

std::unique_ptr<Semaphore> MakeSemaphore(const Client& client, int number,
                                         SemaphoreOptions options = {}) {
  return std::make_unique<Semaphore>(client, absl::StrCat("soak-permits-", number),
                                     Capacities().at(static_cast<size_t>(number)),
                                     std::move(options));
}

// One thread's work.
class PermitWorker {
 public:
  PermitWorker(const Client& client, support::HistoryWriter& history, Tally& tally, int thread,
               uint64_t seed, absl::Duration longest_lease)
      : history_(history),
        tally_(tally),
        thread_(thread),
        dice_(seed),
        longest_lease_(longest_lease),
        leases_{kShortestLease, (kShortestLease + longest_lease) / 2, longest_lease} {
    for (int number = 0; number < static_cast<int>(Capacities().size()); ++number) {
      for (const absl::Duration lease : leases_) {
        semaphores_.push_back(MakeSemaphore(client, number, {.lease = lease}));
      }
    }
  }

  void Work(const std::atomic<bool>& stopping) {
    while (!stopping && !history_.full()) {
      const auto which = static_cast<size_t>(dice_.Below(static_cast<int>(semaphores_.size())));
      number_ = static_cast<int>(which / leases_.size());
      // Of permits that two threads have in common nobody could say whose are given back.
      if (thread_ == 0 && dice_.OneIn(3)) {
        ThroughStdFace(*semaphores_[which], leases_[which % leases_.size()]);
      } else {
        ThroughStatusFace(*semaphores_[which]);
      }
      if (dice_.OneIn(4)) Pass(dice_.Between(absl::ZeroDuration(), absl::Milliseconds(20)));
    }
  }

 private:
  void ThroughStdFace(Semaphore& semaphore, absl::Duration lease) {
    const int way = dice_.Below(4);
    const absl::Duration wait = dice_.Between(absl::Milliseconds(1), longest_lease_);
    const base::Instant asked = base::Now();
    const uint32_t number = history_.Invoke(number_, thread_, /*waits=*/way > 1);
    bool held = true;
    try {
      if (way == 0) held = semaphore.try_acquire();
      if (way == 1) held = semaphore.try_acquire_for(absl::ToChronoNanoseconds(wait));
      if (way > 1) semaphore.acquire();
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), MakeErrorCode(absl::StatusCode::kUnavailable)) << error.what();
      history_.Refused(number);
      ++tally_.unreachable;
      return;
    }
    if (!held) {
      history_.Refused(number);
      ++tally_.busy;
      return;
    }
    history_.Held(number, 0);
    ++tally_.held;
    // It cannot be asked for its deadline: that is no earlier than this.
    history_.Remaining(number, asked, lease * 0.9);
    Pass(HowLong());
    history_.ReleaseInvoked(number);
    semaphore.release();
  }

  void ThroughStatusFace(Semaphore& semaphore) {
    AcquireOptions options;
    const int way = dice_.Below(5);
    if (way < 2) options.wait = dice_.Between(absl::Milliseconds(1), longest_lease_);
    if (way == 1) options.lease = dice_.Between(kShortestLease, longest_lease_);
    if (way == 2) options.wait = absl::ZeroDuration();
    const int permits = 1 + dice_.Below(kMostPermits);
    const uint32_t number =
        history_.Invoke(number_, thread_, /*waits=*/way > 2, /*shared=*/false, permits);
    absl::StatusOr<Permit> permit = semaphore.Acquire(permits, options);
    if (!permit.ok()) {
      history_.Refused(number);
      EXPECT_TRUE(IsBusy(permit.status()) || absl::IsUnavailable(permit.status()))
          << permit.status();
      ++(IsBusy(permit.status()) ? tally_.busy : tally_.unreachable);
      return;
    }
    Hold(number, *permit);
    if (options.lease && dice_.OneIn(2)) {
      const absl::Status extended = permit->Extend(*options.lease);
      EXPECT_TRUE(extended.ok() || IsLeaseLost(extended) || absl::IsUnavailable(extended))
          << extended;
      Sample(number, *permit);
    }
    history_.ReleaseInvoked(number);
    if (dice_.OneIn(8)) return;  // the destructor's part
    for (int i = 0; i < 3; ++i) {
      const absl::Status released = permit->Release();
      EXPECT_TRUE(released.ok() || IsLeaseLost(released) || absl::IsUnavailable(released))
          << released;
      if (!absl::IsUnavailable(released)) break;
    }
  }

  // False: it is over.
  bool Sample(uint32_t number, const Permit& permit) {
    const base::Instant asked = base::Now();
    const absl::Duration remaining = permit.remaining();
    history_.Remaining(number, asked, remaining);
    if (permit.lost().stop_requested()) history_.Lost(number);
    return remaining > absl::ZeroDuration();
  }

  void Hold(uint32_t number, const Permit& permit) {
    history_.Held(number, 0);
    ++tally_.held;
    if (!Sample(number, permit)) return;
    const base::Instant end = base::Now() + HowLong();
    while (base::Now() < end) {
      Pass(std::min(base::Until(end), absl::Milliseconds(20)));
      if (!Sample(number, permit) && dice_.OneIn(2)) return;
    }
  }

  absl::Duration HowLong() {
    const int kind = dice_.Below(200);
    if (kind == 0) return dice_.Between(absl::ZeroDuration(), longest_lease_ * 1.2);
    return dice_.Between(absl::ZeroDuration(), absl::Milliseconds(kind < 30 ? 20 : 2));
  }

  support::HistoryWriter& history_;
  Tally& tally_;
  const int thread_;
  Dice dice_;
  const absl::Duration longest_lease_;
  const std::vector<absl::Duration> leases_;
  std::vector<std::unique_ptr<Semaphore>> semaphores_;  // of each number, one of each lease
  int number_ = 0;
};

REDLATCH_CHILD(SoakWorker) { return RunWorkers<PermitWorker>(parent, args); }

class SemaphoreSoak : public ::testing::Test {
 protected:
  static void Report(const char* what, const std::vector<std::string>& violations) {
    for (size_t i = 0; i < std::min(kShown, violations.size()); ++i) {
      ADD_FAILURE() << what << ": " << violations[i];
    }
    if (violations.size() > kShown) ADD_FAILURE() << what << ": " << violations.size() << " in all";
  }

  // Everybody has gone: the permits of those who died are back when their leases are over.
  void ExpectAllIsBackWithin(absl::Duration patience) {
    const base::Instant until = base::Now() + patience;
    const absl::StatusOr<Client> client = Client::Connect(server_->url());
    for (int number = 0; number < static_cast<int>(Capacities().size()); ++number) {
      const auto semaphore = MakeSemaphore(*client, number);
      const int capacity = Capacities()[static_cast<size_t>(number)];
      const absl::StatusOr<Permit> all = semaphore->Acquire(capacity, {.wait = base::Until(until)});
      EXPECT_TRUE(all.ok()) << all.status();
    }
    // What was given up without an answer is remembered for as long as its lease.
    std::string left;
    do {
      left.clear();
      for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
        EXPECT_NE(server_->Integer({"PTTL", key.text}), -1) << key.text;
        const bool own = key.text.starts_with("redlatch:client:") ||
                         server_->Text({"HGET", key.text, "kind"}) == "semaphore/2";
        if (!own) absl::StrAppend(&left, key.text, " ");
      }
    } while (!left.empty() && base::Now() < until + patience);
    EXPECT_EQ(left, "");
  }

  const std::unique_ptr<support::RedisServer> server_ =
      support::RedisServer::Start({.append_only = true, .config = {"appendfsync always"}});
};

TEST_F(SemaphoreSoak, OfManyProcessesUnderEveryFaultNeverShowsMorePermitsThanThereAre) {
  const int64_t seconds = FromEnvironment("REDLATCH_SOAK", 0);
  const int processes = seconds > 0 ? 16 : 6;
  const absl::Duration longest_lease = absl::Seconds(seconds > 0 ? 2 : 1);
  const auto seed = static_cast<uint64_t>(FromEnvironment(
      "REDLATCH_SOAK_SEED", static_cast<int64_t>(base::RandomBits() % 1'000'000'000)));
  std::printf("REDLATCH_SOAK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);

  Dice dice(seed);
  Crew crew(processes, server_->port(), dice.Seed(), longest_lease);
  Nemesis nemesis(dice.Seed(), *server_, crew, longest_lease,
                  {.locks = static_cast<int>(Capacities().size()),
                   .force = [](const Client& client, int number) {
                     return MakeSemaphore(client, number)->ForceRelease();
                   }});
  nemesis.Rage(absl::Seconds(seconds > 0 ? seconds : 6));
  const base::Instant calm = base::Now();

  // The head of a queue asks again when the lease of whoever died could be over.
  const absl::Duration bound = longest_lease + longest_lease / 3 + kSlack;
  Pass(bound + kSlack);
  const base::Instant until = base::Now();
  const std::vector<std::string> words = crew.Dismiss(absl::Seconds(30));
  ExpectAllIsBackWithin(longest_lease + kSlack);

  const support::History history{.acquisitions = crew.History(), .forced = nemesis.forced()};
  Report("capacity", support::CheckCapacity(history, Capacities()));
  Report("progress", support::CheckProgress(history, calm, until, bound));

  int64_t held = 0;
  int64_t calm_held = 0;
  absl::Duration longest_wait;
  for (const support::Acquisition& one : history.acquisitions) {
    if (calm + bound < one.invoked && one.waits) {
      longest_wait = std::max(longest_wait, std::min(one.returned, until) - one.invoked);
    }
    if (one.outcome != support::Acquisition::Outcome::kHeld) continue;
    ++held;
    if (calm < one.invoked && one.invoked < until) ++calm_held;
  }
  EXPECT_GT(calm_held, 0);
  std::printf("%zu calls, %lld holds by %d processes; %lld of them in calm, for %s at most\n",
              history.acquisitions.size(), static_cast<long long>(held), crew.lives(),
              static_cast<long long>(calm_held), absl::FormatDuration(longest_wait).c_str());
  for (const std::string& line : words) std::printf("  %s\n", line.c_str());
  if (HasFailure() || FromEnvironment("REDLATCH_SOAK_LOG", 0) != 0) {
    std::fputs(nemesis.log().c_str(), stderr);
  }
}

}  // namespace
}  // namespace redlatch::soak
