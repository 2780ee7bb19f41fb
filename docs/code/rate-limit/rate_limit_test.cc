// The code of recipes/rate-limit.md, and tests that run it.
#include <algorithm>
#include <cstdio>
#include <future>
#include <vector>

#include "docs/code/expect.h"
#include "gtest/gtest.h"

// [rate_limit]
#include <string_view>

#include "redlatch/simple_lock.h"

// Lets one caller through per interval, on all hosts together, in the order in which they came.
class RateLimit {
 public:
  RateLimit(const redlatch::Client& client, std::string_view name, absl::Duration interval)
      : lock_(client, name, {.turn = absl::ZeroDuration()}), interval_(interval) {}

  // Waits for this caller's turn. kDeadlineExceeded: that would take longer than `wait`.
  absl::StatusOr<redlatch::FencingToken> Pass(absl::Duration wait) {
    const absl::StatusOr<redlatch::Lease> lease =
        lock_.Acquire({.wait = wait, .at_least = interval_});
    if (!lease.ok()) return lease.status();
    return lease->fencing_token();
  }  // the lock is released here, but stays taken until the interval is over

 private:
  redlatch::SimpleLock lock_;
  const absl::Duration interval_;
};
// [/rate_limit]

TEST(RateLimitRecipe, CallersPassOnePerInterval) {
  const redlatch::Client hosts[] = {Connected(), Connected()};
  RateLimit one(hosts[0], "api.example", absl::Milliseconds(20));
  RateLimit two(hosts[1], "api.example", absl::Milliseconds(20));
  std::vector<std::future<std::vector<uint64_t>>> callers;
  for (int i = 0; i < 6; ++i) {
    callers.push_back(std::async(std::launch::async, [&, i] {
      std::vector<uint64_t> passed;  // at these times, in µs by the server's clock
      for (int call = 0; call < 8; ++call) {
        const auto token = (i % 2 == 0 ? one : two).Pass(absl::Seconds(30));
        ExpectOk(token.status());
        passed.push_back(token->value());
      }
      return passed;
    }));
  }
  std::vector<uint64_t> all;
  for (auto& caller : callers) {
    const std::vector<uint64_t> passed = caller.get();
    all.insert(all.end(), passed.begin(), passed.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 48U);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i] - all[i - 1], 20'000U);
  std::printf("%.1f ms per call\n", static_cast<double>(all.back() - all.front()) / 47e3);
}

TEST(RateLimitRecipe, ACallerThatCannotWaitIsRefused) {
  const redlatch::Client host = Connected();
  RateLimit limit(host, "slow.example", absl::Hours(1));
  ExpectOk(limit.Pass(absl::ZeroDuration()).status());
  EXPECT_TRUE(absl::IsDeadlineExceeded(limit.Pass(absl::ZeroDuration()).status()));
}
