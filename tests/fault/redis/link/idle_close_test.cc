// A server, or something before it, that closes idle connections, in the moment in which they are
// used again. A release meets that in one of three ways: it is seen before it writes, or the bytes
// are lost, or the reply is; in none of them may it spend its time without being sent.
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

void SpinUntil(base::Instant moment) {
  while (base::Now() < moment) std::this_thread::yield();
}

class IdleClose : public ::testing::Test {
 protected:
  // Closes around the release, up to 150 us before or after it.
  void Release(const std::string& url, const std::function<void()>& close) {
    const int times = support::Scaled(400);
    SimpleLock lock(*Client::Connect(url), "lock");
    std::minstd_rand random(1);
    std::atomic<int> round{0};
    std::atomic<int64_t> moment{0};
    std::thread closer([&] {
      for (int i = 1; i <= times; ++i) {
        while (round < i) std::this_thread::yield();
        SpinUntil(base::Instant::FromNanos(moment));
        close();
      }
    });
    int unconfirmed = 0;
    for (int i = 1; i <= times; ++i) {
      auto lease = lock.Acquire();
      EXPECT_TRUE(lease.ok()) << lease.status();
      // So many answers make the connection one that is made again at once.
      for (int k = 0; k < 20; ++k) lock.Inspect().IgnoreError();
      base::Parker().ParkUntil(base::Now() + absl::Milliseconds(6));  // until it is an idle one
      const base::Instant at = base::Now() + absl::Microseconds(150);
      moment = at.nanos() + static_cast<int64_t>(random() % 300'000) - 150'000;
      round = i;
      SpinUntil(at);
      if (!lease.ok()) continue;
      const absl::Status released = lease->Release();
      if (released.ok()) continue;
      ++unconfirmed;
      EXPECT_TRUE(absl::IsUnavailable(released)) << released;
      EXPECT_EQ(released.message().find("not sent"), std::string::npos) << released;
    }
    closer.join();
    std::printf("%d releases, %d not confirmed at once\n", times, unconfirmed);
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
};

TEST_F(IdleClose, ByTheServerMeetsARelease) {
  Release(server_->url(), [&] { server_->Command({"CLIENT", "KILL", "TYPE", "normal"}); });
}

TEST_F(IdleClose, ByAnOrderlyEndMeetsARelease) {
  support::TcpProxy proxy({.port = server_->port()});
  Release(proxy.url(), [&] { proxy.CloseAll(); });
}

TEST_F(IdleClose, ByAResetMeetsARelease) {
  support::TcpProxy proxy({.port = server_->port()});
  Release(proxy.url(), [&] { proxy.ResetAll(); });
}

}  // namespace
}  // namespace redlatch
