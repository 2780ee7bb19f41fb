#include "lua/scripts.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

TEST(ReplicaAcks, GrantIsNotHeldIfTooFewConfirm) {
  std::atomic<int> replicas{1};
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (asked.command[0] == "WAIT") return absl::StrCat(":", replicas.load(), "\r\n");
    if (asked.command[0] == "EVAL" && asked.command[1] == lua::kSimpleRelease.body) {
      return FakeServer::Bulk("released");
    }
    if (asked.command[0] != "EVALSHA") return FakeServer::Polite(asked);
    if (asked.command[1] == lua::kSimpleAcquire.sha1) return FakeServer::Bulk("granted 7 30000 0");
    if (asked.command[1] == lua::kSimpleRenew.sha1) return FakeServer::Bulk("held");
    if (asked.command[1] == lua::kSimpleRelease.sha1) return FakeServer::Bulk("released");
    return FakeServer::Polite(asked);
  });
  const absl::StatusOr<Client> client = Client::Connect(server.url() + "?command_timeout=30s");
  ASSERT_TRUE(client.ok()) << client.status();
  SimpleLock lock(*client, "lock", {.acks = {.replicas = 2, .timeout = absl::Milliseconds(50)}});
  const absl::Status status = lock.Acquire().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("1 of 2 replicas have confirmed it"));
  replicas = 2;
  EXPECT_TRUE(lock.Acquire().ok());
}

}  // namespace
}  // namespace redlatch
