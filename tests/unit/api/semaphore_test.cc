#include "redlatch/semaphore.h"

#include "lua/scripts.h"
#include "redlatch/client.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

TEST(Semaphore, PermitsAreIndependentOfOneReleasedBefore) {
  FakeServer server([](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (FakeServer::Runs(asked, lua::kSemaphoreRelease)) return FakeServer::Bulk("released");
    if (!FakeServer::Runs(asked, lua::kSemaphoreAcquire)) return FakeServer::Polite(asked);
    return FakeServer::Bulk("granted 7 30000 0");
  });
  const absl::StatusOr<Client> client = Client::Connect(server.url());
  ASSERT_TRUE(client.ok()) << client.status();
  Semaphore semaphore(*client, "slots", 3);
  {
    absl::StatusOr<Permit> ended = semaphore.TryAcquire();
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_TRUE(ended->Release().ok());
  }
  absl::StatusOr<Permit> first = semaphore.TryAcquire();
  absl::StatusOr<Permit> second = semaphore.TryAcquire();
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_TRUE(first->Release().ok());
  EXPECT_TRUE(second->valid());
}

}  // namespace
}  // namespace redlatch
