#include "src/lock/confirmed_releases.h"

#include "lua/scripts.h"
#include "redlatch/reentrant_lock.h"
#include "src/lock/client_core.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

using support::FakeServer;

// The old server answers the release; before the thread notes that, the client has a new
// connection.
TEST(ConfirmedReleases, ReleaseIsRepeatedIfItsAnswerIsNotedAfterFailover) {
  ConfirmedReleases* releases = nullptr;
  std::atomic<int> released{0};
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (FakeServer::Runs(asked, lua::kReentrantAcquire)) {
      return FakeServer::Bulk("granted 1 30000 0");
    }
    if (!FakeServer::Runs(asked, lua::kReentrantRelease)) return FakeServer::Polite(asked);
    if (++released == 1) releases->RepeatAll();
    return FakeServer::Bulk("released");
  });
  const absl::StatusOr<Client> client = Client::Connect(server.url());
  ASSERT_TRUE(client.ok()) << client.status();
  releases = &client->core()->confirmed_releases();
  ReentrantLock lock(*client, "lock");
  EXPECT_EQ(lock.Acquire()->Release(), absl::OkStatus());
  EXPECT_TRUE(support::Await([&] { return released > 1; }));
}

}  // namespace
}  // namespace redlatch::internal
