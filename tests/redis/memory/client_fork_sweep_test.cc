// A forked child destroys a client, its locks and its holds while a thread of its parent was using
// them.

#include "tests/redis/memory/fork_sweep.h"

namespace redlatch {
namespace {

// A client, an object of each class, and holds.
struct Everything {
  explicit Everything(const std::string& url)
      : client(Connect(url, {.connect = ConnectPolicy::kLazy})) {
    leases.reserve(8);
    permits.reserve(8);
  }

  Client client;
  SimpleLock simple{client, "a simple lock with a name that is allocated"};
  ReentrantLock reentrant{client, "a reentrant lock with a name that is allocated"};
  ReentrantReadWriteLock read_write{client, "a lock with readers, and a name that is allocated"};
  Semaphore semaphore{client, "a semaphore with a name that is allocated", 5};
  CountDownLatch latch{client, "a latch with a name that is allocated", 1000};
  std::vector<Lease> leases;  // vectors that do not grow while they are used
  std::vector<Permit> permits;
  Hold hold;
};

struct ClientForkSweep : ::testing::Test {
  // Halts `use` at each of its allocations in turn; or, if `threads` is given, the client's
  // threads of that name at each of theirs.
  int Sweep(const std::function<void(Everything&)>& use, const char* threads = nullptr) {
    return redlatch::Sweep([this] { all_ = std::make_unique<Everything>(server_->url()); },
                           [&](int steps) {
                             if (threads == nullptr) steps_left = steps;
                             if (threads != nullptr) named_steps_left = steps;
                             sweep_name = threads;
                             use(*all_);
                             sweep_name = nullptr;
                             steps_left = -1;
                           },
                           [this] { all_.reset(); });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  std::unique_ptr<Everything> all_;
};

// What a thread of the parent does with the objects that its child destroys.
struct Use {
  const char* name;
  int least;  // halts
  std::function<void(Everything&)> make;
};

const Use kUses[] = {{"Lock", 50,
                      [](Everything& all) {
                        all.simple.lock();
                        all.hold = all.simple.current();
                        all.simple.unlock();
                      }},
                     {"Leases", 50,
                      [](Everything& all) {
                        all.leases.push_back(*all.simple.Acquire({.wait = absl::Seconds(5)}));
                        all.leases.push_back(*all.reentrant.Acquire({.lease = absl::Seconds(5)}));
                        all.leases.push_back(*all.reentrant.Acquire({.lease = absl::Seconds(5)}));
                        EXPECT_TRUE(all.leases.back().Extend(absl::Seconds(10)).ok());
                        (void)all.leases.back().lost();
                        EXPECT_TRUE(all.leases.back().Release().ok());
                        all.leases.clear();
                      }},
                     {"ReadWriteLock", 50,
                      [](Everything& all) {
                        all.read_write.lock_shared();
                        all.leases.push_back(*all.read_write.AcquireRead());
                        all.read_write.unlock_shared();
                        all.leases.clear();
                        all.read_write.lock();
                        all.read_write.lock_shared();
                        all.read_write.unlock();
                        all.read_write.unlock_shared();
                      }},
                     {"Permits", 100,
                      [](Everything& all) {
                        for (int i = 0; i < 3; ++i) all.semaphore.acquire();
                        all.permits.push_back(*all.semaphore.Acquire(2));
                        EXPECT_FALSE(all.semaphore.try_acquire());
                        all.semaphore.release(2);
                        all.permits.clear();
                        all.semaphore.release();
                      }},
                     {"Latch", 50,
                      [](Everything& all) {
                        EXPECT_TRUE(all.latch.CountDown(1).ok());
                        EXPECT_TRUE(all.latch.Count().ok());
                        EXPECT_FALSE(all.latch.Wait({.wait = absl::Milliseconds(1)}).ok());
                      }},
                     {"InspectedLock", 50, [](Everything& all) {
                        all.leases.push_back(*all.simple.Acquire());
                        EXPECT_TRUE(all.simple.Inspect().ok());
                        (void)all.client.Stats();
                        EXPECT_TRUE(all.simple.ForceRelease().ok());
                      }}};

class ClientForkSweepOf : public ClientForkSweep, public ::testing::WithParamInterface<Use> {};
INSTANTIATE_TEST_SUITE_P(Uses, ClientForkSweepOf, ::testing::ValuesIn(kUses),
                         [](const auto& use) { return std::string(use.param.name); });

TEST_P(ClientForkSweepOf, ChildMayDestroy) { EXPECT_GT(Sweep(GetParam().make), GetParam().least); }

TEST_F(ClientForkSweep, ChildMayDestroyAwaitedLock) {
  const Client other = Connect(server_->url());
  SimpleLock theirs(other, "a simple lock with a name that is allocated");
  theirs.lock();
  EXPECT_GT(Sweep([](Everything& all) {
              const auto late = all.simple.Acquire({.wait = absl::Milliseconds(3)});
              EXPECT_FALSE(late.ok());
            }),
            50);
  theirs.unlock();
}

TEST_F(ClientForkSweep, ForkDuringRenewalIsSafe) {
  EXPECT_GT(Sweep(
                [](Everything& all) {
                  const auto renewals = [&] { return all.client.Stats().all.renewed; };
                  const auto enough = renewals() + 5;
                  SimpleLock brief(all.client, "brief", {.lease = absl::Milliseconds(30)});
                  while (renewals() < enough) {
                    const auto lease = Must(brief.Acquire());
                    while (lease.valid() && renewals() < enough) {
                    }
                  }
                },
                "redlatch-renew"),
            10);
}

TEST_F(ClientForkSweep, ForkDuringLossNotificationIsSafe) {
  EXPECT_GT(Sweep(
                [](Everything& all) {
                  all.leases.push_back(*all.simple.Acquire({.lease = absl::Milliseconds(10)}));
                  ASSERT_FALSE(all.leases.empty());
                  const auto lost = all.leases.front().lost();
                  while (!lost.stop_requested()) {
                  }
                },
                "redlatch-notify"),
            3);
}

TEST_F(ClientForkSweep, ForkDuringWaitIsSafe) {
  const Client other = Connect(server_->url());
  SimpleLock theirs(other, "a simple lock with a name that is allocated");
  EXPECT_GT(Sweep(
                [&](Everything& all) {
                  theirs.lock();
                  std::jthread waiter([&] {
                    prctl(PR_SET_NAME, "waiter");
                    all.simple.lock();
                  });
                  while (theirs.Inspect()->waiting == 0) {
                  }
                  theirs.unlock();
                },
                "waiter"),
            50);
}

// No other thread reads the message that asks for the cached lock.
TEST_F(ClientForkSweep, ForkDuringRecallIsSafe) {
  const Client other = Connect(server_->url());
  SimpleLock theirs(other, "cached");
  EXPECT_GT(Sweep(
                [&](Everything& all) {
                  SimpleLock cached(all.client, "cached", {.cache_for = absl::Seconds(10)});
                  cached.lock();
                  cached.unlock();
                  theirs.lock();
                  theirs.unlock();
                },
                "redlatch-listen"),
            10);
}

}  // namespace
}  // namespace redlatch
