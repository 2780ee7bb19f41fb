// A program may keep a Permit or a Lease in memory after its release. The next call must still find
// the grant that the client has cached.

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

class KeptAfterRelease : public ::testing::Test {
 protected:
  // How many commands the server runs for each hold that `take` acquires and releases.
  double CommandsEach(const std::function<void()>& take) {
    constexpr int kTimes = 200;
    take();
    const int64_t before = Commands();
    for (int i = 0; i < kTimes; ++i) take();
    return static_cast<double>(Commands() - before) / kTimes;
  }

  int64_t Commands() {
    int64_t total = 0;
    EXPECT_TRUE(absl::SimpleAtoi(server_->Info("total_commands_processed"), &total));
    return total;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const Client client_ = Connect(server_->url()), other_ = Connect(server_->url());
};

TEST_F(KeptAfterRelease, PermitLetsTheNextCallUseTheCachedOne) {
  const SemaphoreOptions options{.turn = absl::Minutes(1)};
  Semaphore semaphore(client_, "semaphore", 1, options), theirs(other_, "semaphore", 1, options);
  std::deque<Permit> permits;
  const auto use = [&] {
    permits.push_back(*semaphore.Acquire());
    EXPECT_TRUE(permits.back().Release().ok());
  };
  // A client caches a permit in its turn once it has waited for another client. If the system makes
  // the thread pause, it may not.
  double commands = 1;
  for (int i = 0; i < 5 && commands >= 0.5; ++i) {
    Permit first = *theirs.Acquire();
    const std::jthread releases([&] {
      EXPECT_TRUE(Await([&] {
        const auto info = theirs.Inspect();
        return info.ok() && info->waiters.size() == 1;
      }));
      EXPECT_TRUE(first.Release().ok());
    });
    commands = CommandsEach(use);
  }
  EXPECT_LT(commands, 0.5);
  EXPECT_LT(CommandsEach([&] {
              permits.push_back(*semaphore.Acquire());
              std::promise<absl::Status> released;
              permits.back().ReleaseAsync([&](absl::Status its) { released.set_value(its); });
              EXPECT_TRUE(released.get_future().get().ok());
            }),
            0.5);
  EXPECT_FALSE(permits.front().valid());
  EXPECT_TRUE(permits.front().Release().ok());
  EXPECT_FALSE(permits.front().Extend(absl::Seconds(5)).ok());
}

TEST_F(KeptAfterRelease, LeaseLetsTheNextCallUseTheCachedGrant) {
  const LockOptions caching{.cache_for = absl::Seconds(20)};
  SimpleLock lock(client_, "lock", caching);
  ReentrantReadWriteLock readers(client_, "readers", caching);
  std::deque<Lease> leases;
  EXPECT_LT(CommandsEach([&] {
              leases.push_back(*lock.Acquire());
              EXPECT_TRUE(leases.back().Release().ok());
            }),
            0.5);
  EXPECT_LT(CommandsEach([&] {
              leases.push_back(*readers.AcquireRead());
              EXPECT_TRUE(leases.back().Release().ok());
            }),
            0.5);
}

}  // namespace
}  // namespace redlatch
