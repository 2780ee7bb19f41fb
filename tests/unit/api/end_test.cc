// What a client still sends when it, or its process, ends.
#include <future>

#include "lua/scripts.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/simple_lock.h"
#include "src/lock/client_core.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

struct Losses : Observer {
  void OnLost(const LostLease&) override { first.set_value(); }
  std::promise<void> first;
};

// A client of a server that refuses the first release for now. It answers each release late, but
// not after the end.
class ClientsEnd : public ::testing::Test {
 protected:
  absl::StatusOr<Lease> Acquire(LockOptions options = {}, const AcquireOptions& how = {}) {
    return SimpleLock(*client_, "lock", std::move(options)).Acquire(how);
  }
  // Each returns true if the server had answered a release by the end.
  bool ReleasesAtExit() {
    client_->core()->GiveBackAtExit(base::Now() + absl::Seconds(10));
    ended_ = true;
    return released_;
  }
  bool ReleasesWhenDestroyed() {
    client_.reset();
    ended_ = true;
    return released_;
  }

  std::string refusal_ = "-BUSY a script is running\r\n";  // empty: none
  std::string granted_ = "granted 7 30000 0";
  const std::shared_ptr<Losses> losses_ = std::make_shared<Losses>();

 private:
  std::optional<std::string> Answer(const FakeServer::Asked& asked) {
    if (FakeServer::Runs(asked, lua::kSimpleAcquire)) return FakeServer::Bulk(granted_);
    if (!FakeServer::Runs(asked, lua::kSimpleRelease)) return FakeServer::Polite(asked);
    support::Await([this] { return ended_.load(); }, absl::Milliseconds(50));
    if (!refusal_.empty()) return std::exchange(refusal_, "");
    released_ = !ended_;
    return FakeServer::Bulk("released");
  }

  std::atomic<bool> ended_ = false;
  std::atomic<bool> released_ = false;
  FakeServer server_{[this](const auto& asked) { return Answer(asked); }};
  std::optional<Client> client_ =
      Client::Connect(server_.url() + "?command_timeout=30s", {.observer = losses_}).value();
};

TEST_F(ClientsEnd, ExitRepeatsReleaseOfCachedLock) {
  EXPECT_TRUE(Acquire({.cache_for = absl::Seconds(20)}).ok());
  EXPECT_TRUE(ReleasesAtExit());
}

TEST_F(ClientsEnd, ExitRepeatsReleaseThatWasInFlight) {
  EXPECT_TRUE(Acquire().ok());
  EXPECT_TRUE(ReleasesAtExit());
}

TEST_F(ClientsEnd, LastReleaseIsRepeated) {
  EXPECT_TRUE(Acquire().ok());
  EXPECT_TRUE(ReleasesWhenDestroyed());
}

TEST_F(ClientsEnd, AsynchronousReleaseIsSentAgainAsText) {
  refusal_ = "-NOSCRIPT No matching script.\r\n";
  Acquire()->ReleaseAsync([](const absl::Status&) {});
  EXPECT_TRUE(ReleasesWhenDestroyed());
}

// A renewal may have made its lease longer at the server.
TEST_F(ClientsEnd, HoldThatWasJustLostIsReleased) {
  refusal_.clear();
  granted_ = "granted 7 200 0";
  {
    const auto lease = Acquire({}, {.lease = absl::Milliseconds(200)});
    losses_->first.get_future().wait();
  }
  EXPECT_TRUE(ReleasesWhenDestroyed());
}

}  // namespace
}  // namespace redlatch
