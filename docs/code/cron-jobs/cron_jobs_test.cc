// The code of recipes/cron-jobs.md, and tests that run it.
#include "docs/code/expect.h"
#include "gtest/gtest.h"

// [at_most_once]
#include <functional>
#include <stop_token>

#include "redlatch/simple_lock.h"
#include "redlatch/status.h"

using Job = std::function<absl::Status(std::stop_token lost)>;

// All hosts call this once per period. One of them runs the job; a run that fails or dies counts.
absl::Status RunAtMostOnce(const redlatch::Client& client, absl::Duration period, const Job& job) {
  redlatch::SimpleLock lock(client, "hourly-report");
  absl::StatusOr<redlatch::Lease> lease =
      lock.Acquire({.wait = absl::ZeroDuration(), .at_least = period * 0.9});
  if (redlatch::IsBusy(lease.status())) return absl::OkStatus();  // another host has it
  if (!lease.ok()) return lease.status();
  return job(lease->lost());
}
// [/at_most_once]

// [until_success]
// If the run fails or its host dies, the next host that waits runs the job.
absl::Status RunUntilSuccess(const redlatch::Client& client, absl::Duration period,
                             absl::Duration wait, const Job& job) {
  redlatch::SimpleLock lock(client, "hourly-import", {.lease = absl::Seconds(10)});
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = wait});
  if (redlatch::IsBusy(lease.status())) return absl::OkStatus();  // done, or still at work
  if (!lease.ok()) return lease.status();
  absl::Status done = job(lease->lost());
  if (!done.ok()) return done;            // the lock is released, and the next host tries
  return lease->StayTaken(period * 0.9);  // counts from the start of the run
}
// [/until_success]

// Waits until the name is free, and returns its token: the time, by the server's clock, in µs.
uint64_t AwaitFree(const redlatch::Client& client, const char* name) {
  redlatch::SimpleLock lock(client, name);
  const absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(10)});
  ExpectOk(lease.status());
  return lease->fencing_token().value();
}

TEST(CronJobsRecipe, OneHostRunsTheJobOncePerPeriod) {
  const redlatch::Client one = Connected();
  const redlatch::Client two = Connected();
  int runs = 0;
  const Job fails = [&](const std::stop_token&) {
    ++runs;
    return absl::InternalError("no disk");
  };
  const absl::Duration period = absl::Seconds(1);
  const uint64_t before = AwaitFree(one, "hourly-report");
  EXPECT_TRUE(absl::IsInternal(RunAtMostOnce(one, period, fails)));
  ExpectOk(RunAtMostOnce(two, period, fails));
  ExpectOk(RunAtMostOnce(one, period, fails));
  EXPECT_EQ(runs, 1);
  EXPECT_GE(AwaitFree(two, "hourly-report") - before, 900'000);
  EXPECT_TRUE(absl::IsInternal(RunAtMostOnce(two, period, fails)));
  EXPECT_EQ(runs, 2);
}

TEST(CronJobsRecipe, NextHostRunsAFailedJob) {
  const redlatch::Client one = Connected();
  const redlatch::Client two = Connected();
  int runs = 0;
  const Job fails_at_first = [&](const std::stop_token&) {
    return ++runs == 1 ? absl::InternalError("no disk") : absl::OkStatus();
  };
  const absl::Duration hour = absl::Hours(1);
  EXPECT_TRUE(absl::IsInternal(RunUntilSuccess(one, hour, absl::Seconds(10), fails_at_first)));
  ExpectOk(RunUntilSuccess(two, hour, absl::Seconds(10), fails_at_first));
  EXPECT_EQ(runs, 2);
  ExpectOk(RunUntilSuccess(one, hour, absl::Milliseconds(50), fails_at_first));
  EXPECT_EQ(runs, 2);
}
