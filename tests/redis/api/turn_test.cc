// LockOptions::turn: clients that all want one lock, each in its turn.
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/fencing_token.h"
#include "redlatch/simple_lock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using support::Await;

TEST(Turn, ClientsProgressExcludeOneAnotherAndTheirTokensGrow) {
  const auto server = support::RedisServer::Start();
  std::atomic<bool> over{false};
  std::atomic<int> inside{0};
  std::atomic<uint64_t> last_token{0};
  std::atomic<int> sections[2] = {};
  std::atomic<int> changes{0};
  std::atomic<int> latest{-1};
  const auto work = [&](int which) {
    const Client client = support::Connect(server->url());
    SimpleLock lock(client, "lock", {.turn = absl::Milliseconds(5)});
    while (!over) {
      lock.lock();
      EXPECT_EQ(++inside, 1);
      const uint64_t token = lock.current().fencing_token().value();
      EXPECT_GT(token, last_token.exchange(token));
      if (latest.exchange(which) != which) ++changes;
      ++sections[which];
      --inside;
      lock.unlock();
    }
  };
  std::vector<std::thread> crew;
  for (int which = 0; which < 2; ++which) crew.emplace_back(work, which);
  EXPECT_TRUE(Await([&] { return changes >= 40; })) << changes;
  over = true;
  for (std::thread& each : crew) each.join();
  EXPECT_GE(sections[0], 20);
  EXPECT_GE(sections[1], 20);
  EXPECT_GT(sections[0] + sections[1], 2 * changes) << "several acquisitions in a turn";
  EXPECT_TRUE(Await([&] { return server->Integer({"EXISTS", "lock"}) == 0; }));
}

}  // namespace
}  // namespace redlatch
