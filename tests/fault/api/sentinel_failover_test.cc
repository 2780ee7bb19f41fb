// Primaries that die, hang, are cut off or step down, one after the other, under processes that
// lock through Sentinel.
//
//   REDLATCH_FAILOVERS=20    so many. Where unset: 4, one of each kind; 2 where holds are to
//   survive
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_check/history_checker.h"
#include "tests/support/history_check/history_event.h"
#include "tests/support/history_writer.h"
#include "tests/support/sentinel_group.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using soak::Dice;
using support::Direction;
using support::SentinelGroup;

constexpr int kFailoverProcesses = 8;
constexpr int kFailoverLocks = 2;  // a simple one and a reentrant one
constexpr absl::Duration kSentinelPatience = absl::Seconds(60);

// What is promised of holds when a primary is replaced.
enum FailoverPromise : uint8_t { kTokensGrow, kAcks, kWithQuarantine };
constexpr absl::Duration kQuarantineTime = absl::Seconds(4);

LockOptions OptionsFor(FailoverPromise promise) {
  switch (promise) {
    case kTokensGrow:
      return {};
    case kAcks:  // of all replicas
      return {.replica_acks = 2, .ack_timeout = absl::Seconds(2)};
    case kWithQuarantine:  // less what a primary goes on alone
      return {.lease = kQuarantineTime - absl::Seconds(2)};
  }
  return {};
}

// One process: it locks and unlocks until its parent says that it is over.
REDLATCH_CHILD(FailoverWorker) {
  support::HistoryWriter history(args.at(1), std::stoi(args.at(2)));
  Dice dice(std::stoull(args.at(3)));
  const absl::StatusOr<Client> client = Client::Connect(args.at(0));
  if (!client.ok()) return 2;
  const LockOptions options = OptionsFor(static_cast<FailoverPromise>(std::stoi(args.at(4))));
  std::vector<std::unique_ptr<RedisLockBase>> locks;
  locks.push_back(std::make_unique<SimpleLock>(*client, "simple", options));
  locks.push_back(std::make_unique<ReentrantLock>(*client, "reentrant", options));
  for (int round = 0; !parent.ReadLine(absl::ZeroDuration()) && !history.full(); ++round) {
    const int which = round % kFailoverLocks;
    const uint32_t number = history.Invoke(
        locks[static_cast<size_t>(which)]->name(),
        which == 0 ? history::Kind::kLock : history::Kind::kReentrant, 0, /*waits=*/true);
    absl::StatusOr<Lease> lease =
        locks[static_cast<size_t>(which)]->Acquire({.wait = absl::Seconds(30)});
    if (!lease.ok()) {
      history.Refused(number, IsBusy(lease.status()));
      continue;
    }
    history.Held(number, lease->fencing_token().value());
    history.Remaining(number, base::Now(), lease->remaining());
    soak::Pass(dice.Between(absl::ZeroDuration(), absl::Milliseconds(2)));
    const base::Instant asked = base::Now();
    history.Remaining(number, asked, lease->remaining());
    history.ReleaseInvoked(number);
    if (lease->Release().ok()) history.Released(number);
  }
  return 0;
}

class SentinelFailover : public ::testing::TestWithParam<FailoverPromise> {
 public:
  SentinelFailover() {
    const std::string url =
        GetParam() == kWithQuarantine
            ? absl::StrCat(group_->url(), "?quarantine=", absl::FormatDuration(kQuarantineTime))
            : group_->url();
    for (int i = 0; i < kFailoverProcesses; ++i) {
      paths_.push_back(absl::StrCat(directory_.path(), "/", i));
      crew_.push_back(support::SpawnChild(
          "FailoverWorker",
          {url, paths_.back(), absl::StrCat(i), absl::StrCat(i), absl::StrCat(GetParam())}));
    }
    AwaitAllSince(base::Now());
  }

  // When the last of the processes that had to acquire something after `since` did so; their calls
  // may have begun sooner.
  base::Instant AwaitAllSince(base::Instant since) {
    base::Instant last = since;
    for (size_t i = 0; i < paths_.size(); ++i) {
      EXPECT_TRUE(support::Await(
          [&] {
            std::ifstream history(paths_[i]);
            history.seekg(read_[i]);
            for (std::string line; std::getline(history, line) && !history.eof();) {
              read_[i] += static_cast<std::streamoff>(line.size() + 1);
              const auto event = history::ParseLine(line);
              const auto at = base::Instant::FromNanos(event->time);
              if (event->what != history::What::kOk || at <= since) continue;
              last = std::max(last, at);
              return true;
            }
            return false;
          },
          kSentinelPatience))
          << paths_[i] << " never locks again";
    }
    return last;
  }

  // Returns the next primary.
  size_t Dies(size_t old) {
    group_->server(old).Kill();
    const size_t next = group_->AwaitPrimaryOtherThan(old);
    mend_ = [this, old] { group_->server(old).Restart(); };
    return next;
  }
  size_t Hangs(size_t old) {
    group_->server(old).Stop();
    const size_t next = group_->AwaitPrimaryOtherThan(old);
    mend_ = [this, old] { group_->server(old).Continue(); };
    return next;
  }
  // A sentinel that finds no replica ready gives up, and has to be asked again.
  size_t StepsDown(size_t old) {
    mend_ = [] {};
    std::optional<size_t> primary;
    for (const base::Instant end = base::Now() + kSentinelPatience;
         !primary && base::Now() < end;) {
      group_->sentinel(0).Command({"SENTINEL", "FAILOVER", SentinelGroup::kPrimary});
      support::Await([&] { return (primary = group_->PrimaryOtherThan(old)).has_value(); },
                     absl::Seconds(3));
    }
    return primary.value();
  }
  size_t IsCutOff(size_t old) {
    group_->proxy(old).Drop(Direction::kToServer);
    group_->proxy(old).Drop(Direction::kToClient);
    const size_t next = group_->AwaitPrimaryOtherThan(old);
    mend_ = [this, old] { group_->proxy(old).Heal(); };
    return next;
  }

  const support::TempDir directory_;
  const std::unique_ptr<SentinelGroup> group_ = SentinelGroup::Start(
      {.proxied = true, .server = {.config = {"min-replicas-max-lag 1", "repl-backlog-ttl 0"}}});
  std::vector<std::string> paths_;
  std::array<std::streamoff, kFailoverProcesses> read_{};  // of each
  std::vector<std::unique_ptr<support::Child>> crew_;
  std::function<void()> mend_;
};

TEST_P(SentinelFailover, EverybodyLocksAgainSoonAndTokensGrow) {
  struct Kind {
    const char* name;
    size_t (SentinelFailover::*strike)(size_t old);
  };
  const std::array<Kind, 4> kinds = {{{"killed", &SentinelFailover::Dies},
                                      {"stopped", &SentinelFailover::Hangs},
                                      {"told to step down", &SentinelFailover::StepsDown},
                                      {"cut off", &SentinelFailover::IsCutOff}}};
  const bool at_once = GetParam() == kTokensGrow;
  const int64_t failovers = soak::FromEnvironment("REDLATCH_FAILOVERS", at_once ? 4 : 2);
  absl::Duration longest;
  for (int64_t i = 0; i < failovers; ++i) {
    const Kind& kind = kinds[static_cast<size_t>(i) % kinds.size()];
    const size_t old = group_->Primary().value();
    const base::Instant begun = base::Now();
    const size_t primary = (this->*kind.strike)(old);
    const base::Instant answers = base::Now();
    // A replica that is not there confirms nothing.
    if (!at_once) mend_();
    const absl::Duration after = AwaitAllSince(answers) - answers;
    longest = std::max(longest, after);
    std::printf(
        "server %zu was %s; after %.2f s server %zu was the primary; all had locked again "
        "%.3f s later\n",
        old, kind.name, absl::ToDoubleSeconds(answers - begun), primary,
        absl::ToDoubleSeconds(after));
    if (at_once) mend_();
    ASSERT_TRUE(group_->AwaitWell());
    AwaitAllSince(base::Now());
  }
  for (const auto& child : crew_) child->pipe().WriteLine("stop");
  for (const auto& child : crew_) {
    const auto status = child->WaitFor(kSentinelPatience);
    EXPECT_TRUE(status && status->success());
  }
  const auto history = history::ReadHistory(paths_);
  ASSERT_TRUE(history.ok()) << history.status();
  soak::ExpectTrue(*history, [&](const history::Violation& violation) {
    return at_once && violation.rule == history::Rule::kExclusion;
  });
  if (at_once) {
    EXPECT_LE(longest, absl::Seconds(support::FullBars() ? 1 : 5));
  }
}

std::string NameOfPromise(const ::testing::TestParamInfo<FailoverPromise>& info) {
  static constexpr std::array kNames = {"plain", "acks", "quarantine"};
  return kNames.at(info.param);
}

INSTANTIATE_TEST_SUITE_P(Promises, SentinelFailover,
                         ::testing::Values(kTokensGrow, kAcks, kWithQuarantine), NameOfPromise);

}  // namespace
}  // namespace redlatch
