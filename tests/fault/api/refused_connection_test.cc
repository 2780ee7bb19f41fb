// A server that refuses the client for a while when it connects: a password that was changed and
// changed back, a memory policy that was wrong. The command was never sent, so nothing is decided.
#include <memory>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kRefusedPatience = absl::Seconds(10);

class RiskEvents : public Observer {
 public:
  void OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status&) override {
    Count(at_risk_);
  }
  void OnRecovered(std::string_view, FencingToken) override { Count(recovered_); }
  void OnLost(const LostLease&) override { Count(lost_); }

  bool AwaitAtRisk() { return Await(at_risk_); }
  bool AwaitRecovered() { return Await(recovered_); }
  int lost() {
    const base::MutexLock lock(mu_);
    return lost_;
  }

 private:
  void Count(int& event) {
    const base::MutexLock lock(mu_);
    ++event;
    changed_.SignalAll();
  }
  bool Await(const int& event) {
    const base::Instant deadline = base::Now() + kRefusedPatience;
    const base::MutexLock lock(mu_);
    while (event == 0 && lost_ == 0 && base::Now() < deadline) changed_.WaitUntil(mu_, deadline);
    return event > 0;
  }

  base::Mutex mu_;
  base::CondVar changed_;
  int at_risk_ = 0;
  int recovered_ = 0;
  int lost_ = 0;
};

template <class Lock>
class RefusedConnection : public ::testing::Test {
 protected:
  void Set(const char* setting, const char* value) {
    ASSERT_FALSE(server_->Command({"CONFIG", "SET", setting, value}).is_error());
  }
  void RefuseByPassword() {
    Set("requirepass", "secret");
    proxy_.ResetAll();
  }
  void RefuseByPolicy() {
    Set("maxmemory", "100mb");
    Set("maxmemory-policy", "allkeys-lru");
    proxy_.ResetAll();
  }

  void RefuseByAcl() {
    ASSERT_EQ(server_->Text({"ACL", "SETUSER", "default", "-eval", "-evalsha"}), "OK");
    proxy_.ResetAll();
  }
  // For no connection more than there are by then.
  void RefuseForWantOfRoom() {
    Set("maxclients", "1");
    proxy_.ResetAll();
  }
  void Welcome() {
    ASSERT_EQ(server_->Text({"ACL", "SETUSER", "default", "+eval", "+evalsha"}), "OK");
    Set("maxclients", "10000");
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  support::TcpProxy proxy_{{.port = server_->port()}};
  const std::shared_ptr<RiskEvents> events_ = std::make_shared<RiskEvents>();
  const Client client_ = *Client::Connect(proxy_.url(), {.observer = events_});
  const Client other_ = *Client::Connect(server_->url());
};

using RefusedLocks = ::testing::Types<SimpleLock, ReentrantLock, ReentrantReadWriteLock>;
TYPED_TEST_SUITE(RefusedConnection, RefusedLocks);

TYPED_TEST(RefusedConnection, DoesNotMakeAReleaseFinal) {
  TypeParam lock(this->client_, "lock");
  TypeParam others(this->other_, "lock");
  absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  this->RefuseByPassword();
  const absl::Status released = lease->Release();
  EXPECT_TRUE(absl::IsUnavailable(released)) << released;
  EXPECT_THAT(std::string(released.message()), HasSubstr("NOAUTH"));
  this->Set("requirepass", "");
  EXPECT_TRUE(others.Acquire({.wait = kRefusedPatience}).ok());  // the lease is 30 s
}

TYPED_TEST(RefusedConnection, ForWantOfAPermissionOrOfRoomDoesNotMakeAReleaseFinal) {
  TypeParam lock(this->client_, "lock");
  TypeParam others(this->other_, "lock");
  for (const bool by_acl : {true, false}) {
    SCOPED_TRACE(by_acl);
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = kRefusedPatience});
    ASSERT_TRUE(lease.ok()) << lease.status();
    by_acl ? this->RefuseByAcl() : this->RefuseForWantOfRoom();
    const absl::Status released = lease->Release();
    EXPECT_TRUE(absl::IsUnavailable(released)) << released;
    this->Welcome();
    EXPECT_TRUE(others.Acquire({.wait = kRefusedPatience}).ok());
  }
}

TYPED_TEST(RefusedConnection, DoesNotMakeAnUnlockFinal) {
  TypeParam lock(this->client_, "lock");
  TypeParam others(this->other_, "lock");
  lock.lock();
  this->RefuseByPolicy();
  lock.unlock();
  this->Set("maxmemory-policy", "noeviction");
  EXPECT_TRUE(others.Acquire({.wait = kRefusedPatience}).ok());
}

TYPED_TEST(RefusedConnection, DoesNotEndALiveHold) {
  TypeParam lock(this->client_, "lock", {.lease = absl::Seconds(6)});
  absl::StatusOr<Lease> lease = lock.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  this->RefuseByPolicy();
  ASSERT_TRUE(this->events_->AwaitAtRisk());
  EXPECT_TRUE(lease->valid());
  this->Set("maxmemory-policy", "noeviction");
  EXPECT_TRUE(this->events_->AwaitRecovered());
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(this->events_->lost(), 0);
  EXPECT_TRUE(lease->Release().ok());
}

using RefusedSemaphore = RefusedConnection<Semaphore>;

TEST_F(RefusedSemaphore, DoesNotKeepAPermitThatWasGivenBack) {
  Semaphore semaphore(client_, "semaphore", 1);
  Semaphore others(other_, "semaphore", 1);
  auto permit = semaphore.Acquire();
  ASSERT_TRUE(permit.ok()) << permit.status();
  RefuseByPassword();
  EXPECT_TRUE(absl::IsUnavailable(permit->Release()));
  Set("requirepass", "");
  EXPECT_TRUE(others.Acquire(1, {.wait = kRefusedPatience}).ok());
}

}  // namespace
}  // namespace redlatch
