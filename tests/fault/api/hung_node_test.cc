// One of several nodes hangs: leases at the others are held and renewed as before.
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

// A lease that the client renews, and its lock.
template <class Lock>
struct Held {
  template <class Options>
  Held(const Client& client, const std::string& name, Options options)
      : lock(std::make_unique<Lock>(client, name, options)), lease(lock->Acquire()) {
    EXPECT_TRUE(lease.ok()) << lease.status();
  }
  std::unique_ptr<Lock> lock;
  absl::StatusOr<Lease> lease;
};

struct HungClusterNode : ::testing::Test {
  // The other nodes do not declare the cluster down because of the hung one.
  static void SetUpTestSuite() {
    group_ = ClusterGroup::Start({.replicas = 1,
                                  .node_timeout = absl::Minutes(5),
                                  .server = {.config = {"cluster-require-full-coverage no"}}})
                 .release();
  }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }

  // A name whose lock belongs to that primary.
  std::string NameAt(size_t primary) {
    return group_->NameAt(primary, absl::StrCat("lock:", ++number_));
  }

  int number_ = 0;
  static ClusterGroup* group_;
};

ClusterGroup* HungClusterNode::group_ = nullptr;

// At the hung node, renewals, acknowledged renewals and repeated counts are due after 5 s, 5 s and
// 2 s.
TEST_F(HungClusterNode, DelaysNoRenewalElsewhere) {
  const Client client = Connect(group_->url() + "?command_timeout=5s");
  const auto options = [](absl::Duration lease, int acks) {
    return LockOptions{.lease = lease, .acks = {.replicas = acks, .timeout = absl::Seconds(1)}};
  };
  CountDownLatch latch(client, NameAt(0), 2, {.ttl = absl::Seconds(6)});
  ASSERT_TRUE(latch.CountDown().ok());
  std::vector<Held<SimpleLock>> at_hung;
  std::vector<Held<SimpleLock>> elsewhere;
  for (const int acks : {0, 1}) {
    at_hung.emplace_back(client, NameAt(0), options(absl::Seconds(15), acks));
    for (const size_t node : {1, 2}) {
      elsewhere.emplace_back(client, NameAt(node), options(absl::Seconds(4), acks));
    }
  }
  group_->server(0).Stop();
  Sleep(absl::Seconds(support::FullBars() ? 60 : 15));  // leases of 4 s need several renewals
  for (const auto& each : elsewhere) EXPECT_TRUE(each.lease->valid());
  group_->server(0).Continue();
}

// More asynchronous requests wait at the node than may be in flight at a server.
TEST_F(HungClusterNode, DelaysNoAsyncRequestElsewhere) {
  constexpr int kRequests = 400;
  const Client client = Connect(group_->url() + "?command_timeout=1m");
  SimpleLock here(client, NameAt(0));
  SimpleLock elsewhere(client, NameAt(1));
  for (SimpleLock* const lock : {&here, &elsewhere}) ASSERT_TRUE(lock->Acquire().ok());
  support::Outcomes<absl::StatusOr<Lease>> at_hung;
  support::Outcomes<absl::StatusOr<Lease>> granted;
  support::Outcomes<absl::Status> released;
  std::vector<std::unique_ptr<SimpleLock>> locks;
  for (int i = 0; i < kRequests; ++i) {
    locks.push_back(std::make_unique<SimpleLock>(client, NameAt(0)));
    ASSERT_TRUE(locks.back()->Acquire().ok());
  }
  group_->server(0).Stop();
  for (const auto& lock : locks) {
    lock->AcquireAsync({.wait = absl::ZeroDuration()}, at_hung.Callback());
  }
  elsewhere.AcquireAsync({}, granted.Callback());
  EXPECT_TRUE(granted.Await(1, absl::Seconds(30)));
  if (granted.size() == 1) granted.Take()->ReleaseAsync(released.Callback());
  EXPECT_TRUE(released.Await(1, absl::Seconds(20)));
  EXPECT_EQ(at_hung.size(), 0);
  group_->server(0).Continue();
  EXPECT_TRUE(at_hung.Await(kRequests, absl::Minutes(1)));
}

TEST(HungQuorumNode, LosesNoLease) {
  QuorumGroup group(3);
  const Client client = Connect(group.url("command_timeout=5s"));
  std::vector<Held<RedLock>> held;
  for (const int seconds : {4, 4, 15, 15}) {
    held.emplace_back(client, absl::StrCat("lock:", held.size()),
                      RedLockOptions{.lease = absl::Seconds(seconds)});
  }
  group[0].Stop();
  Sleep(absl::Seconds(support::FullBars() ? 60 : 8));  // leases of 4 s need several renewals
  for (const auto& each : held) EXPECT_TRUE(each.lease->valid());
  group[0].Continue();
}

}  // namespace
}  // namespace redlatch
