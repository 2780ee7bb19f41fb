// The code of recipes/choosing-times.md, and a test of its numbers.
#include "docs/code/expect.h"
#include "gtest/gtest.h"

// [options]
#include "redlatch/lock_options.h"

const redlatch::LockOptions kLeader = {.lease = absl::Seconds(10), .stop_margin = absl::Seconds(1)};
const redlatch::LockOptions kBatchJob = {.at_most = absl::Hours(9)};
const redlatch::LockOptions kOftenInOneProcess = {.lease = absl::Seconds(5),
                                                  .cache_for = absl::Seconds(1)};
// [/options]

#include "redlatch/simple_lock.h"

// How long a new hold of a lock with these options lasts, as its client counts it.
absl::Duration LastsFor(const redlatch::LockOptions& options) {
  const redlatch::Client client = Connected();
  redlatch::SimpleLock lock(client, "lasts", options);
  const absl::Time before = absl::Now();
  const absl::StatusOr<redlatch::Lease> lease = lock.Acquire();
  ExpectOk(lease.status());
  return lease->remaining() + (absl::Now() - before);
}

TEST(ChoosingTimesRecipe, AHoldLastsAsTheTableSays) {
  // A lease L without 1 % and 2 ms, and without the margin to stop in.
  EXPECT_NEAR(absl::ToDoubleSeconds(LastsFor(kBatchJob)), 29.698, 0.2);
  EXPECT_NEAR(absl::ToDoubleSeconds(LastsFor(kLeader)), 8.898, 0.2);
  EXPECT_NEAR(absl::ToDoubleSeconds(LastsFor(kOftenInOneProcess)), 4.948, 0.2);
}
