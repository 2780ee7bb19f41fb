// Requests that a server executes late.
#include "lua/scripts.h"
#include "redlatch/client.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/simple_lock.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

// Another client waits, and tells this one that the lock is taken by a native grant of it.
TEST(LateNativeAcquire, IsEndedWhenAnotherClientWaits) {
  constexpr size_t kClientSize = 32;
  std::string late = "none";  // the grant
  std::atomic<bool> ended = false;
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    const std::vector<std::string>& command = asked.command;
    std::string answer = *FakeServer::Polite(asked);
    if (command[0] == "SUBSCRIBE") {
      const std::string& channel = command[1];
      late = absl::StrCat(channel.substr(channel.size() - kClientSize), ":7n");
      absl::StrAppend(&answer, ">3\r\n", FakeServer::Bulk("message"), FakeServer::Bulk(channel),
                      FakeServer::Bulk(absl::StrCat("wanted ", late, " lock")));
    }
    if (FakeServer::Runs(asked, lua::kSimpleAcquire)) {
      return FakeServer::Bulk("queued 30000 1 77");
    }
    if (std::ranges::find(command, late) == command.end()) return answer;
    ended = true;
    return FakeServer::Bulk("left");
  });
  const absl::StatusOr<Client> client = Client::Connect(server.url());
  ASSERT_TRUE(client.ok()) << client.status();
  SimpleLock lock(*client, "lock");
  lock.AcquireAsync({}, [](const absl::StatusOr<Lease>&) {});
  EXPECT_TRUE(support::Await([&] { return ended.load(); }));
}

TEST(LateRedissonAcquire, FindsTombstoneAfterAnswerToRelease) {
  std::atomic<bool> lost = false;
  std::atomic<int> deleted = 0;
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    const std::vector<std::string>& command = asked.command;
    if (command[0] == "DEL" && absl::StrContains(command[1], "{lock}")) ++deleted;
    const LockScripts& scripts = lua::kRedissonLockScripts;
    if (FakeServer::Runs(asked, scripts.release)) return FakeServer::Bulk("released");
    if (!FakeServer::Runs(asked, scripts.acquire)) return FakeServer::Polite(asked);
    if (lost.exchange(false)) return std::nullopt;
    return FakeServer::Bulk("granted 7 30000 0");
  });
  const absl::StatusOr<Client> client = Client::Connect(server.url());
  ASSERT_TRUE(client.ok()) << client.status();
  redisson::Lock lock(*client, "lock");
  for (const bool late : {false, true}) {
    lost = late;
    auto lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(lease->Release().ok());
    EXPECT_TRUE(client->Ping().ok());
    EXPECT_EQ(deleted, late ? 0 : 1);
    deleted = 0;
  }
}

}  // namespace
}  // namespace redlatch
