// The code of recipes/thread-pools.md, and tests that run it.

// [move]
#include <future>
#include <string>
#include <utility>

#include "redlatch/simple_lock.h"

void Book(const std::string& entry);  // stands for your work

// The hold goes with the work, to whichever thread runs it. std::async stands for your pool.
std::future<absl::Status> BookLater(redlatch::Lease lease, std::string entry) {
  return std::async(std::launch::async,
                    [lease = std::move(lease), entry = std::move(entry)]() mutable {
                      if (lease.valid()) Book(entry);
                      return lease.Release();  // kAborted if the lock was lost meanwhile
                    });
}

absl::StatusOr<std::future<absl::Status>> BookUnderLock(redlatch::SimpleLock& lock) {
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) return lease.status();
  return BookLater(*std::move(lease), "rent");
}
// [/move]

// [owner]
#include <future>
#include <stop_token>
#include <string>

#include "redlatch/reentrant_lock.h"
#include "redlatch/run_locked.h"

// Each step takes the lock itself, since other code may also call it alone.
absl::Status BookStep(redlatch::ReentrantLock& ledger, const redlatch::Owner& job,
                      const std::string& entry) {
  return redlatch::RunLockedAs(ledger, job, {.wait = absl::Seconds(5)},
                               [&](const std::stop_token& lost) {
                                 if (lost.stop_requested()) return absl::AbortedError("lost");
                                 Book(entry);
                                 return absl::OkStatus();
                               });
}

// A job whose steps run on other threads, while it has the lock. `id` must be unique.
absl::Status BookTransfer(redlatch::ReentrantLock& ledger, const std::string& id) {
  const redlatch::Owner job("transfer:" + id);
  return redlatch::RunLockedAs(ledger, job, {.wait = absl::Seconds(5)},
                               [&](const std::stop_token& lost) {
                                 const auto step = [&](const char* entry) {
                                   return std::async(std::launch::async, [&, entry] {
                                     if (lost.stop_requested()) return absl::AbortedError("lost");
                                     return BookStep(ledger, job, entry);
                                   });
                                 };
                                 std::future<absl::Status> debit = step("debit");
                                 std::future<absl::Status> credit = step("credit");
                                 absl::Status done = debit.get();
                                 done.Update(credit.get());
                                 return done;
                               });
}
// [/owner]

// The page shows all that its code needs, so the headers of its tests come after it.
#include <algorithm>
#include <mutex>
#include <vector>

#include "docs/code/expect.h"
#include "gtest/gtest.h"

std::mutex booked_mu;
std::vector<std::string> booked;
void Book(const std::string& entry) {
  const std::lock_guard<std::mutex> lock(booked_mu);
  booked.push_back(entry);
}

TEST(ThreadPoolsRecipe, ALeaseMovesToAnotherThread) {
  const redlatch::Client client = Connected();
  redlatch::SimpleLock lock(client, "rent");
  booked.clear();
  absl::StatusOr<std::future<absl::Status>> later = BookUnderLock(lock);
  ExpectOk(later.status());
  ExpectOk(later->get());
  EXPECT_EQ(booked, std::vector<std::string>{"rent"});
  ExpectOk(lock.TryAcquire().status());
}

TEST(ThreadPoolsRecipe, StepsOfAnOwnerShareItsHold) {
  const redlatch::Client client = Connected();
  redlatch::ReentrantLock ledger(client, "ledger");
  booked.clear();
  ExpectOk(BookTransfer(ledger, "17"));
  std::sort(booked.begin(), booked.end());
  EXPECT_EQ(booked, (std::vector<std::string>{"credit", "debit"}));

  const absl::StatusOr<redlatch::Lease> other = ledger.AcquireAs(redlatch::Owner("transfer:18"));
  ExpectOk(other.status());
  const absl::StatusOr<redlatch::Lease> refused =
      ledger.AcquireAs(redlatch::Owner("transfer:17"), {.wait = absl::ZeroDuration()});
  EXPECT_TRUE(absl::IsDeadlineExceeded(refused.status()));
}
