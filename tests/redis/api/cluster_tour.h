// Every kind of lock at every primary of a cluster, between two clients.
#ifndef REDLATCH_TESTS_REDIS_API_CLUSTER_TOUR_H_
#define REDLATCH_TESTS_REDIS_API_CLUSTER_TOUR_H_

#include "tests/support/live_testing.h"

namespace redlatch {

class ClusterTour {
 public:
  ClusterTour(ClusterGroup& group, const std::string& url) : group_(group), url_(url) {}

  void Go() {
    const Client client = Connect(url_);
    const Client other = Connect(url_);
    // An open latch stays.
    static int tours = 0;
    const std::string prefix = absl::StrCat("tour", ++tours);
    for (size_t i = 0; i < group_.servers(); ++i) {
      if (group_.server(i).Info("role") != "master") continue;
      const std::string tag = absl::StrCat("{", group_.NameAt(i, prefix), "}");
      SCOPED_TRACE(tag);
      HandOver(client, other, tag + "simple");
      OthersAt(client, tag);
    }
  }

 private:
  static constexpr absl::Duration kPatience = absl::Seconds(8);  // less than a heartbeat

  // Who waits is told by message.
  void HandOver(const Client& client, const Client& other, const std::string& name) {
    SimpleLock lock(client, name);
    SimpleLock others(other, name);
    auto lease = Must(lock.Acquire({.wait = kPatience}));
    absl::StatusOr<Lease> taken;
    std::thread waiter([&] { taken = others.Acquire({.wait = kPatience}); });
    EXPECT_TRUE(Await([&] { return lock.Inspect()->waiting == 1; }));
    EXPECT_EQ(lock.Inspect()->holders.at(0).process.pid, getpid());
    const absl::Status released = lease.Release();
    EXPECT_TRUE(released.ok()) << released;
    waiter.join();
    EXPECT_TRUE(taken.ok()) << taken.status();
  }
  static void OthersAt(const Client& client, const std::string& tag) {
    ReentrantReadWriteLock read_write(client, tag + "read_write");
    EXPECT_TRUE(read_write.AcquireRead({.wait = kPatience}).ok());
    EXPECT_TRUE(read_write.AcquireWrite({.wait = kPatience}).ok());
    Semaphore semaphore(client, tag + "semaphore", 2);
    EXPECT_TRUE(semaphore.Acquire(2, {.wait = kPatience}).ok());
    CountDownLatch latch(client, tag + "latch", 1);
    EXPECT_TRUE(latch.CountDown().ok());
    EXPECT_TRUE(latch.Wait({.wait = kPatience}).ok());
  }

  ClusterGroup& group_;
  const std::string url_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_API_CLUSTER_TOUR_H_
