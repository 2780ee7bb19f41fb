// The pieces of 04-read-write.md, and a program that runs them.
#include "docs/code/expect.h"

// [copy]
#include <mutex>

#include "redlatch/reentrant_read_write_lock.h"

void Copy(redlatch::ReentrantReadWriteLock& from, redlatch::ReentrantReadWriteLock& to) {
  std::scoped_lock both(from.read_lock(), to.write_lock());  // without deadlock, as std::lock does
  // ...
}
// [/copy]

// [prices]
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/reentrant_read_write_lock.h"

// In a database, beside the data that the lock guards.
struct Prices {
  uint64_t fence = 0;  // the token of the last writer
  double bread = 0;
};

absl::Status SetBread(redlatch::ReentrantReadWriteLock& lock, Prices& prices, double price) {
  absl::StatusOr<redlatch::Lease> lease = lock.AcquireWrite({.wait = absl::Seconds(5)});
  if (!lease.ok()) return lease.status();  // kDeadlineExceeded: busy for 5 s
  const uint64_t token = lease->fencing_token().value();
  if (token < prices.fence) return absl::AbortedError("a later writer has been here");
  prices = {.fence = token, .bread = price};
  return lease->Release();  // kAborted: the lock was lost while we wrote
}

absl::StatusOr<double> Bread(redlatch::ReentrantReadWriteLock& lock, const Prices& prices) {
  absl::StatusOr<redlatch::Lease> lease = lock.AcquireRead({.wait = absl::Seconds(5)});
  if (!lease.ok()) return lease.status();
  if (prices.fence > lease->fencing_token().value()) {
    return absl::AbortedError("overtaken by a writer");
  }
  return prices.bread;
}
// [/prices]

// [downgrade]
#include <mutex>
#include <shared_mutex>

#include "redlatch/reentrant_read_write_lock.h"

void WriteAndCheck(redlatch::ReentrantReadWriteLock& lock) {
  std::unique_lock writing(lock);
  // ... write
  std::shared_lock reading(lock);  // at once, even if writers wait
  writing.unlock();                // other readers get in; writers do not
  // ... read what was written
}
// [/downgrade]

// [upgrade]
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "redlatch/reentrant_read_write_lock.h"

int CachedOrNew(redlatch::ReentrantReadWriteLock& lock, std::optional<int>& cached) {
  {
    std::shared_lock reading(lock);
    if (cached) return *cached;
  }
  std::unique_lock writing(lock);
  if (!cached) cached = 42;  // another writer may have been faster
  return *cached;
}
// [/upgrade]

// [fair]
#include "redlatch/reentrant_read_write_lock.h"

void Report(const redlatch::Client& client) {
  redlatch::ReentrantReadWriteLock fair(client, "journal", {.lease = absl::Seconds(5)},
                                        redlatch::ReentrantReadWriteLock::Policy::kPhaseFair);
  // ...
}
// [/fair]

// [keep]
#include "redlatch/reentrant_read_write_lock.h"

void ServePrices(const redlatch::Client& client) {
  redlatch::ReentrantReadWriteLock prices(
      client, "prices", {.lease = absl::Seconds(5), .cache_for = absl::Seconds(5)});
  // ... reads cost no round trip until another client writes
}
// [/keep]

int main() {
  const redlatch::Client client = Connected();
  redlatch::ReentrantReadWriteLock bread(client, "bread");
  redlatch::ReentrantReadWriteLock copy_of_it(client, "copy of it");
  Copy(bread, copy_of_it);

  Prices prices;
  Expect(*Bread(bread, prices) == 0);
  ExpectOk(SetBread(bread, prices, 2.50));
  Expect(*Bread(bread, prices) == 2.50);
  prices.fence = ~uint64_t{0};  // as if a later writer had been here
  Expect(absl::IsAborted(SetBread(bread, prices, 3)));
  Expect(absl::IsAborted(Bread(bread, prices).status()));

  WriteAndCheck(bread);

  std::optional<int> cached;
  Expect(CachedOrNew(bread, cached) == 42);
  Expect(CachedOrNew(bread, cached) == 42);
  {
    const std::shared_lock reading(bread);  // an upgrade is refused, at once
    Expect(!bread.try_lock());
    Expect(absl::IsFailedPrecondition(bread.AcquireWrite().status()));
  }
  Report(client);
  ServePrices(client);
  Expect(bread.hold_count() == 0 && bread.read_hold_count() == 0);
}
