// Bars of what held locks cost their client: threads, processor time, memory.
// REDLATCH_FULL_BARS=1: held for longer.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/support/process_stats.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCostsAreOurs = false;
#else
constexpr bool kCostsAreOurs = true;
#endif

template <class Lock>
class ManyHolds : public ::testing::Test {
 protected:
  struct Held {
    std::unique_ptr<Lock> lock;
    Lease lease;
  };
  std::vector<Held> Take(const Client& client, int locks, const LockOptions& options,
                         const std::string& prefix) {
    std::vector<Held> held(static_cast<size_t>(locks));
    for (int i = 0; i < locks; ++i) {
      Held& one = held[static_cast<size_t>(i)];
      one.lock = std::make_unique<Lock>(client, absl::StrCat(prefix, i), options);
      absl::StatusOr<Lease> lease = one.lock->Acquire({.wait = absl::Seconds(5)});
      EXPECT_TRUE(lease.ok()) << lease.status();
      if (lease.ok()) one.lease = *std::move(lease);
    }
    return held;
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
};
using HeldLocks = ::testing::Types<SimpleLock, ReentrantLock>;
TYPED_TEST_SUITE(ManyHolds, HeldLocks);

TYPED_TEST(ManyHolds, OfAnIdleClientAreRenewedByOneThreadAndNextToNoProcessorTime) {
  constexpr int kLocks = 200;
  constexpr absl::Duration kLease = absl::Seconds(6);
  const absl::Duration time = absl::Seconds(support::FullBars() ? 20 : 4);
  const int threads_before = support::ThreadCount();
  const Client client = *Client::Connect(this->server_->url());
  const auto held = this->Take(client, kLocks, {.lease = kLease}, "lock");
  base::Parker().ParkUntil(base::Now() + kLease / 3);  // one renewal of each: threads have started
  // Of the client: the subscriber's, the renewer's, the notifier's.
  EXPECT_LE(support::ThreadCount() - threads_before, 3);

  const int threads = support::ThreadCount();
  this->server_->Command({"CONFIG", "RESETSTAT"});
  const absl::Duration before = support::ProcessCpuTime();
  const base::Instant began = base::Now();
  base::Parker().ParkUntil(began + time);
  const absl::Duration used = support::ProcessCpuTime() - before;
  const double share = absl::FDivDuration(used, base::Now() - began);
  EXPECT_EQ(support::ThreadCount(), threads);
  EXPECT_TRUE(!kCostsAreOurs || share < 0.02) << share;
  for (const auto& one : held) EXPECT_TRUE(one.lease.valid());
  const std::string stats = this->server_->Text({"INFO", "commandstats"});
  const std::string evalsha = "cmdstat_evalsha:calls=";
  ASSERT_NE(stats.find(evalsha), std::string::npos);
  const int64_t renewals =
      std::strtoll(stats.c_str() + stats.find(evalsha) + evalsha.size(), nullptr, 10);
  EXPECT_GE(renewals, kLocks);
  std::printf("%d held locks, %lld renewals in %s: %.2f %% of a processor, %d threads\n", kLocks,
              static_cast<long long>(renewals), absl::FormatDuration(time).c_str(), share * 100,
              threads - threads_before);
}

TYPED_TEST(ManyHolds, UseNoMoreThanTwoKibibytesEach) {
  const int locks = std::max(1000, support::Scaled(10'000));
  const Client client = *Client::Connect(this->server_->url());
  const auto warm = this->Take(client, 500, {}, "warm");
  const int64_t before = support::ResidentBytes();
  const auto held = this->Take(client, locks, {}, "lock");
  const int64_t each = (support::ResidentBytes() - before) / locks;
  EXPECT_TRUE(!kCostsAreOurs || each <= 2048) << each;
  std::printf("%d held locks: %lld bytes each, object and lease included\n", locks,
              static_cast<long long>(each));
}

}  // namespace
}  // namespace redlatch
