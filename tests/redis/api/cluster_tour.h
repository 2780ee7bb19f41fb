// Every kind of lock at every primary of a cluster, between two clients.
#ifndef REDLATCH_TESTS_REDIS_API_CLUSTER_TOUR_H_
#define REDLATCH_TESTS_REDIS_API_CLUSTER_TOUR_H_

#include <unistd.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/redis/wire/slot.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"

namespace redlatch {

// A name, beginning so, that lies at that server, a primary.
inline std::string NameAt(support::ClusterGroup& group, size_t server, std::string_view prefix) {
  for (int i = 0;; ++i) {
    const std::string name = absl::StrCat(std::string(prefix), ":", i);
    if (group.OwnerOf(redis::SlotOf(name)) == server) return name;
  }
}

class ClusterTour {
 public:
  ClusterTour(support::ClusterGroup& group, const std::string& url) : group_(group), url_(url) {}

  void Go() {
    const absl::StatusOr<Client> client = Client::Connect(url_);
    ASSERT_TRUE(client.ok()) << client.status();
    const absl::StatusOr<Client> other = Client::Connect(url_);
    ASSERT_TRUE(other.ok()) << other.status();
    // An open latch stays.
    static int tours = 0;
    const std::string prefix = absl::StrCat("tour", ++tours);
    for (size_t i = 0; i < group_.servers(); ++i) {
      if (group_.server(i).Info("role") != "master") continue;
      const std::string tag = absl::StrCat("{", NameAt(group_, i, prefix), "}");
      SCOPED_TRACE(tag);
      HandOver(*client, *other, tag + "simple");
      OthersAt(*client, tag);
    }
  }

 private:
  static constexpr absl::Duration kPatience = absl::Seconds(8);  // less than a heartbeat

  // Who waits is told by message.
  void HandOver(const Client& client, const Client& other, const std::string& name) {
    SimpleLock lock(client, name);
    SimpleLock others(other, name);
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = kPatience});
    ASSERT_TRUE(lease.ok()) << lease.status();
    absl::StatusOr<Lease> taken;
    std::thread waiter([&] { taken = others.Acquire({.wait = kPatience}); });
    EXPECT_TRUE(support::Await([&] { return lock.Inspect()->waiting == 1; }));
    EXPECT_EQ(lock.Inspect()->holders.at(0).process.pid, getpid());
    const absl::Status released = lease->Release();
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

  support::ClusterGroup& group_;
  const std::string url_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_API_CLUSTER_TOUR_H_
