// The pieces of 13-with-redisson.md, and a program that runs them.
#include <chrono>
#include <string>
#include <thread>

#include "docs/code/expect.h"

int prices = 0;
int Prices() { return prices; }
void UpdatePrices() { ++prices; }
void Ship(int order);

// [lock]
#include <mutex>

#include "redlatch/redisson/lock.h"
#include "redlatch/status.h"

void Ship(int order);  // stands for your work

// lock(), and unlock() in `finally`: a guard does both.
void ShipOne(redlatch::redisson::Lock& lock, int order) {
  std::scoped_lock guard(lock);
  Ship(order);
}

// tryLock(5, TimeUnit.SECONDS). The watchdog renews the lock.
absl::Status TryToShip(redlatch::redisson::Lock& lock, int order) {
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (redlatch::IsBusy(lease.status())) return lease.status();  // here, tryLock() returns false
  if (!lease.ok()) return lease.status();                       // here, it throws
  Ship(order);
  if (!lease->valid()) return absl::AbortedError("the lock was lost");
  return lease->Release();  // kAborted where unlock() throws IllegalMonitorStateException
}
// [/lock]

// [read_write]
#include <shared_mutex>

#include "redlatch/redisson/read_write_lock.h"

int Prices();         // stand for your work
void UpdatePrices();

int ReadPrices(redlatch::redisson::ReadWriteLock& lock) {
  std::shared_lock reading(lock);  // readLock().lock()
  return Prices();
}

void WritePrices(redlatch::redisson::ReadWriteLock& lock) {
  std::scoped_lock writing(lock);  // writeLock().lock()
  UpdatePrices();
}
// [/read_write]

// [fenced]
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/fenced_lock.h"

// lockAndGetToken()
absl::StatusOr<redlatch::FencingToken> LockAndGetToken(redlatch::redisson::FencedLock& lock,
                                                       redlatch::Lease& lease) {
  absl::StatusOr<redlatch::Lease> acquired = lock.Acquire();
  if (!acquired.ok()) return acquired.status();
  lease = *std::move(acquired);
  return lease.fencing_token();
}
// [/fenced]

// [both]
#include "redlatch/reentrant_lock.h"

// Excludes programs that use only Redisson's lock, and programs that use only redlatch's.
class BothLocks {
 public:
  explicit BothLocks(const redlatch::Client& client)
      : theirs_(client, "orders:42"), ours_(client, "orders/42") {}

  // A Lockable, for std::scoped_lock. All programs take the two in this order.
  void lock() {
    theirs_.lock();
    try {
      ours_.lock();
    } catch (...) {
      theirs_.unlock();
      throw;
    }
  }
  void unlock() {
    ours_.unlock();
    theirs_.unlock();
  }

 private:
  redlatch::redisson::Lock theirs_;
  redlatch::ReentrantLock ours_;
};
// [/both]
