// Bars of time while the server hangs: holders are told by their local deadline, and whoever waits
// comes back by its wait + 50 ms.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
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
constexpr absl::Duration kCommandTimeout = absl::Seconds(1);  // the URL's

template <class Lock>
class HangingServer : public ::testing::Test {
 protected:
  ~HangingServer() override { server_->Continue(); }

  Client Connect(ConnectPolicy policy = ConnectPolicy::kEager) {
    return *Client::Connect(server_->url(),
                            {.connect = policy, .observer = std::make_shared<Observer>()});
  }

  // The calls of one thread that wait so long, each in every way.
  static void WaitInEveryWay(Lock& lock, absl::Duration wait, redis::Punctuality& punctuality) {
    const auto answered = [&](base::Instant began, absl::Duration waited) {
      punctuality.Note(began + waited);
    };
    base::Instant began = base::Now();
    const auto lease = lock.Acquire({.wait = wait});
    answered(began, wait);
    EXPECT_TRUE(IsBusy(lease.status()) || absl::IsUnavailable(lease.status())) << lease.status();

    began = base::Now();
    EXPECT_FALSE(lock.TryAcquire().ok());
    answered(began, kCommandTimeout);

    for (const bool waits : {false, true}) {
      began = base::Now();
      try {
        EXPECT_FALSE(waits ? lock.try_lock_for(absl::ToChronoNanoseconds(wait)) : lock.try_lock());
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), MakeErrorCode(absl::StatusCode::kUnavailable));
      }
      answered(began, waits ? wait : kCommandTimeout);
    }
  }

  static void WaitOnManyThreads(const std::vector<std::unique_ptr<Lock>>& locks) {
    redis::Punctuality punctuality;
    std::vector<std::thread> threads;
    for (const auto& lock : locks) {
      for (int wait_ms : {1, 30, 100, 300, 700}) {
        threads.emplace_back(
            [&, wait_ms] { WaitInEveryWay(*lock, absl::Milliseconds(wait_ms), punctuality); });
      }
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(punctuality.Within(kHangGrace));
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
};
using HangLocks = ::testing::Types<SimpleLock, ReentrantLock>;
TYPED_TEST_SUITE(HangingServer, HangLocks);

TYPED_TEST(HangingServer, HoldersAreToldOfTheLossNoLaterThanTheirDeadlineAndNotMuchSooner) {
  const Client client = this->Connect();
  struct Case {
    absl::Duration lease;
    std::unique_ptr<TypeParam> lock;
    std::optional<Lease> held;
    std::atomic<int64_t> deadline{0};
    std::atomic<int64_t> fired{0};
  };
  std::vector<std::unique_ptr<Case>> cases;
  for (int lease_ms : {200, 500, 1000, 2000}) {
    auto one = std::make_unique<Case>();
    one->lease = absl::Milliseconds(lease_ms);
    one->lock = std::make_unique<TypeParam>(client, absl::StrCat("lock", lease_ms),
                                            LockOptions{.lease = one->lease});
    one->held = *one->lock->Acquire();
    cases.push_back(std::move(one));
  }
  this->server_->Stop();
  // No renewal is answered any more, but one that was may just be on its way to the machine.
  redis::Punctuality punctuality;
  std::vector<std::unique_ptr<std::stop_callback<std::function<void()>>>> callbacks;
  for (const auto& one : cases) {
    callbacks.push_back(std::make_unique<std::stop_callback<std::function<void()>>>(
        one->held->lost(), [&it = *one, &punctuality] {
          it.fired = base::Now().nanos();
          punctuality.Note(base::Instant::FromNanos(it.deadline));
        }));
  }
  base::Parker().ParkUntil(base::Now() + absl::Milliseconds(50));
  for (const auto& one : cases) {
    const base::Instant asked = base::Now();
    const absl::Duration remaining = one->held->remaining();
    ASSERT_GT(remaining, absl::ZeroDuration());
    one->deadline = (asked + remaining).nanos();
  }
  const base::Instant patience = base::Now() + kHangPatience;
  for (const auto& one : cases) {
    while (one->fired == 0 && base::Now() < patience) std::this_thread::yield();
    ASSERT_NE(one->fired, 0);
    const absl::Duration early = absl::Nanoseconds(one->deadline - one->fired);
    const absl::Duration margin = one->lease / 100 + absl::Milliseconds(2);
    EXPECT_LE(early, margin + absl::Milliseconds(20)) << one->lease;
    EXPECT_FALSE(one->held->valid());
    std::printf("lease %s: told %s before the deadline\n", absl::FormatDuration(one->lease).c_str(),
                absl::FormatDuration(early).c_str());
  }
  EXPECT_TRUE(punctuality.Within(absl::ZeroDuration()));
  callbacks.clear();
}

TYPED_TEST(HangingServer, WaitsForALockThatAnotherHasEndInTime) {
  TypeParam held(this->Connect(), "lock");
  const auto lease = held.Acquire();
  const Client client = this->Connect();
  std::vector<std::unique_ptr<TypeParam>> locks;
  locks.push_back(std::make_unique<TypeParam>(client, "lock"));
  EXPECT_TRUE(IsBusy(locks[0]->Acquire({.wait = absl::Milliseconds(300)}).status()));
  this->server_->Stop();
  this->WaitOnManyThreads(locks);
}

TYPED_TEST(HangingServer, WaitsForALockThatIsFreeEndInTime) {
  const Client client = this->Connect();
  std::vector<std::unique_ptr<TypeParam>> locks;
  for (int i = 0; i < 4; ++i) {
    locks.push_back(std::make_unique<TypeParam>(client, absl::StrCat("lock", i)));
    EXPECT_TRUE(locks.back()->TryAcquire().ok());
  }
  this->server_->Stop();
  this->WaitOnManyThreads(locks);
}

TYPED_TEST(HangingServer, WaitsOfAClientThatNeverGotThroughEndInTime) {
  const Client connected = this->Connect();  // but never subscribed
  this->server_->Stop();
  std::vector<std::unique_ptr<TypeParam>> locks;
  locks.push_back(std::make_unique<TypeParam>(connected, "lock"));
  locks.push_back(std::make_unique<TypeParam>(this->Connect(ConnectPolicy::kLazy), "lock"));
  this->WaitOnManyThreads(locks);
}

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
