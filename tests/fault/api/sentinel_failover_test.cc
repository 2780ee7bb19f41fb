// Primaries crash, hang, are cut off or step down, one after the other, while clients lock through
// real sentinels. REDLATCH_FAILOVERS=20 sets the number of failovers; the default is one of each
// kind.
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::SentinelGroup;

constexpr size_t kFailoverClients = 6;
constexpr absl::Duration kSentinelTimeout = absl::Seconds(60);

// With acks or with a quarantine, a failover must not let a second client get a held lock.
struct FailoverCase {
  const char* name;
  LockOptions options;
  const char* url = "";
};

class SentinelFailover : public ::testing::TestWithParam<FailoverCase> {
 protected:
  SentinelFailover() {
    for (size_t i = 0; i < kFailoverClients; ++i) {
      crew_.emplace_back([this, i](const std::stop_token& stop) { Work(stop, i); });
    }
    AwaitAll();
  }

  static bool excludes() { return GetParam().options.acks.replicas > 0 || *GetParam().url != '\0'; }

  // Waits until every client has locked once more, by a call that began after this one.
  void AwaitAll() {
    for (const std::atomic<int>& each : rounds_) {
      const int enough = each + 2;
      EXPECT_TRUE(Await([&] { return each >= enough; }, kSentinelTimeout)) << "never locks again";
    }
  }

  // Replaces the primary; returns a function that repairs its server.
  std::function<void()> Strike(int64_t kind, size_t old) {
    switch (kind % 4) {
      case 0:
        group_->server(old).Kill();
        group_->AwaitPrimaryOtherThan(old);
        return [this, old] { group_->server(old).Restart(); };
      case 1:
        group_->server(old).Stop();
        group_->AwaitPrimaryOtherThan(old);
        return [this, old] { group_->server(old).Continue(); };
      case 2:
        // A sentinel that finds no replica ready gives up, and must be asked again.
        EXPECT_TRUE(Await(
            [&] {
              group_->sentinel(0).Command({"SENTINEL", "FAILOVER", SentinelGroup::kPrimary});
              return Await([&] { return group_->PrimaryOtherThan(old).has_value(); },
                           absl::Seconds(3));
            },
            kSentinelTimeout));
        return [] {};
      default:
        group_->proxy(old).Drop(Direction::kToServer);
        group_->proxy(old).Drop(Direction::kToClient);
        group_->AwaitPrimaryOtherThan(old);
        return [this, old] { group_->proxy(old).Heal(); };
    }
  }

  const std::unique_ptr<SentinelGroup> group_ = SentinelGroup::Start(
      {.proxied = true, .server = {.config = {"min-replicas-max-lag 1", "repl-backlog-ttl 0"}}});

 private:
  void Work(const std::stop_token& stop, size_t i) {
    const Client client = Connect(group_->url() + GetParam().url);
    SimpleLock simple(client, "simple", GetParam().options);
    ReentrantLock reentrant(client, "reentrant", GetParam().options);
    for (int round = 0; !stop.stop_requested(); ++round) {
      const bool one = round % 2 == 0;
      const uint64_t before = tokens_[one];
      const absl::StatusOr<Lease> lease = (one ? static_cast<RedisLockBase&>(simple) : reentrant)
                                              .Acquire({.wait = kSentinelTimeout});
      if (!lease.ok()) continue;
      const int inside = ++inside_[one];
      EXPECT_TRUE(inside == 1 || !excludes()) << "two have it";
      const uint64_t token = lease->fencing_token().value();
      const uint64_t last = tokens_[one].exchange(token);
      // If two may have it at once, their threads may come here in either order.
      EXPECT_LT(excludes() ? last : before, token);
      Sleep(absl::Milliseconds(1));  // another holder would be seen meanwhile
      --inside_[one];
      ++rounds_[i];
    }
  }

  std::array<std::atomic<int>, kFailoverClients> rounds_ = {};
  std::array<std::atomic<int>, 2> inside_ = {};
  std::array<std::atomic<uint64_t>, 2> tokens_ = {};
  std::vector<std::jthread> crew_;
};

TEST_P(SentinelFailover, AllClientsLockAgainAndTokensGrow) {
  const int64_t failovers = support::FromEnvironment("REDLATCH_FAILOVERS", excludes() ? 2 : 4);
  for (int64_t i = 0; i < failovers; ++i) {
    SCOPED_TRACE(i);
    const std::function<void()> repair = Strike(i, group_->Primary().value());
    // Replicas that are down confirm nothing, so the old primary must be back first.
    if (excludes()) repair();
    AwaitAll();
    if (!excludes()) repair();
    ASSERT_TRUE(group_->AwaitWell());
    AwaitAll();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Promises, SentinelFailover,
    ::testing::Values(FailoverCase{"plain", {}},
                      FailoverCase{"acks", {.acks = {.replicas = 2, .timeout = absl::Seconds(2)}}},
                      // An isolated primary goes on granting for two seconds.
                      FailoverCase{"quarantine", {.lease = absl::Seconds(2)}, "?quarantine=4s"}),
    [](const auto& its) { return its.param.name; });

}  // namespace
}  // namespace redlatch
