// LockOptions::turn: clients that all want one lock, each in its turn.

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

// One of many processes: it ends right after an unlock() in its turn.
REDLATCH_CHILD(Ender) {
  const Client client = Connect(args.at(0));
  SimpleLock lock(client, "lock", {.lease = absl::Minutes(1), .turn = absl::Seconds(5)});
  lock.lock();
  lock.unlock();
  parent.WriteLine("ready");
  parent.ReadLine();
  for (int i = 0; i < 50; ++i) {
    lock.lock();
    lock.unlock();
  }
  _exit(0);
}

TEST(Turn, ExitRightAfterUnlockDelaysOthersOnlyForAClaim) {
  const auto server = RedisServer::Start();
  std::vector<std::unique_ptr<support::Child>> crowd;
  for (int i = 0; i < 4; ++i) crowd.push_back(support::SpawnChild("Ender", {server->url()}));
  for (const auto& each : crowd) ASSERT_EQ(each->pipe().ReadLine(), "ready");
  for (const auto& each : crowd) each->pipe().WriteLine("go");
  const base::Instant end = base::Now() + absl::Seconds(50);  // less than a lease
  for (const auto& each : crowd) EXPECT_TRUE(each->WaitFor(end - base::Now()).has_value());
  EXPECT_TRUE(Await([&] { return server->Integer({"EXISTS", "lock"}) == 0; }));
}

}  // namespace
}  // namespace redlatch
