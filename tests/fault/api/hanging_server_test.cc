// Bars of time while the server hangs: holders are told by their local deadline, and whoever waits
// comes back by its wait + 50 ms.
#include <memory>
#include <optional>
#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/support/punctuality.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

constexpr absl::Duration kHangGrace = absl::Milliseconds(50);
constexpr absl::Duration kHangPatience = absl::Seconds(10);

template <class Lock>
class HangingServer : public ::testing::Test {
 protected:
  ~HangingServer() override { server_->Continue(); }

  Client Connect() {
    return *Client::Connect(server_->url(), {.observer = std::make_shared<Observer>()});
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
};
using HangLocks = ::testing::Types<SimpleLock, ReentrantLock>;
TYPED_TEST_SUITE(HangingServer, HangLocks);

TYPED_TEST(HangingServer, ClientsCloseByTheCommandTimeout) {
  TypeParam held(this->Connect(), "lock");
  const auto lease = held.Acquire();
  redis::Punctuality punctuality;
  for (const bool while_a_renewal_hangs : {false, true}) {
    auto client =
        std::make_unique<Client>(*Client::Connect(this->server_->url() + "?command_timeout=300ms",
                                                  {.observer = std::make_shared<Observer>()}));
    auto lock = std::make_unique<TypeParam>(*client, "lock");
    EXPECT_TRUE(IsBusy(lock->Acquire({.wait = absl::Milliseconds(300)}).status()));
    auto second = std::make_unique<TypeParam>(*client, "second", LockOptions{absl::Seconds(1)});
    std::optional<Lease> renewed = *second->Acquire();
    this->server_->Stop();
    if (while_a_renewal_hangs) base::Parker().ParkUntil(base::Now() + absl::Milliseconds(350));
    const auto waited = lock->Acquire({.wait = absl::Milliseconds(5)});  // leaves a cancel behind
    EXPECT_FALSE(waited.ok());
    const base::Instant began = base::Now();
    renewed.reset();
    punctuality.Note(began + absl::Milliseconds(300));
    const base::Instant closing = base::Now();
    lock.reset();
    second.reset();
    client.reset();
    punctuality.Note(closing + absl::Milliseconds(300));
    this->server_->Continue();
  }
  EXPECT_TRUE(punctuality.Within(kHangGrace));
}

TYPED_TEST(HangingServer, UnlockAndDestructorsReturnByTheCommandTimeout) {
  const Client client = *Client::Connect(this->server_->url() + "?command_timeout=200ms",
                                         {.observer = std::make_shared<Observer>()});
  TypeParam by_lock(client, "a");
  TypeParam by_lease(client, "b");
  TypeParam by_destructor(client, "c");
  by_lock.lock();
  std::optional<Lease> lease = *by_lease.Acquire();
  std::optional<Lease> dropped = *by_destructor.Acquire();
  this->server_->Stop();
  redis::Punctuality punctuality;
  const auto timed = [&](auto call) {
    const base::Instant began = base::Now();
    call();
    punctuality.Note(began + absl::Milliseconds(200));
  };
  timed([&] { by_lock.unlock(); });
  timed([&] { EXPECT_TRUE(absl::IsUnavailable(lease->Release())); });
  timed([&] { dropped.reset(); });
  EXPECT_TRUE(punctuality.Within(kHangGrace));
  this->server_->Continue();
  // The background finishes what was not confirmed.
  const base::Instant patience = base::Now() + kHangPatience;
  while (this->server_->Integer({"EXISTS", "a", "b", "c"}) != 0 && base::Now() < patience) {
    std::this_thread::yield();
  }
  EXPECT_EQ(this->server_->Integer({"EXISTS", "a", "b", "c"}), 0);
  EXPECT_TRUE(lease->Release().ok());
}

}  // namespace
}  // namespace redlatch
