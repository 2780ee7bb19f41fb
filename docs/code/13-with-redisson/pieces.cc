// The pieces of 13-with-redisson.md, and a program that runs them.
#include <atomic>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "docs/code/expect.h"
#include "redlatch/redisson/semaphore.h"
#include "redlatch/semaphore.h"
#include "redlatch/status.h"

// [lock]
#include <mutex>

#include "redlatch/redisson/lock.h"
#include "redlatch/status.h"

void Ship(int order);  // stands for your work

// lock(), and unlock() in `finally`
void ShipOne(redlatch::redisson::Lock& lock, int order) {
  std::scoped_lock guard(lock);
  Ship(order);
}

// tryLock(5, TimeUnit.SECONDS): without a lease of its own, the lock is renewed.
absl::Status ShipAll(redlatch::redisson::Lock& lock, int orders) {
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) return lease.status();
  for (int order = 0; order < orders && lease->valid(); ++order) Ship(order);
  return lease->Release();  // IsLeaseLost() where Java's unlock() throws
}
// [/lock]

// [read_write]
#include <mutex>
#include <shared_mutex>

#include "redlatch/redisson/read_write_lock.h"

int Price();  // stand for your work
void SetPrice(int price);

int ReadPrice(redlatch::redisson::ReadWriteLock& prices) {
  std::shared_lock reading(prices);  // readLock().lock()
  return Price();
}

void WritePrice(redlatch::redisson::ReadWriteLock& prices, int price) {
  std::scoped_lock writing(prices);  // writeLock().lock()
  SetPrice(price);
}
// [/read_write]

// [fenced]
#include "redlatch/redisson/fenced_lock.h"

absl::Status Write(redlatch::FencingToken token);  // your store, which rejects old tokens

absl::Status WriteFenced(redlatch::redisson::FencedLock& lock) {
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire();  // lockAndGetToken()
  if (!lease.ok()) return lease.status();
  return Write(lease->fencing_token());
}
// [/fenced]

// [both]
#include "redlatch/multi_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/reentrant_lock.h"

// Excludes the programs that use only one of the two locks.
absl::Status ShipUnderBoth(const redlatch::Client& client, int order) {
  redlatch::redisson::Lock redissons(client, "orders:42");
  redlatch::ReentrantLock redlatchs(client, "new-orders:42");
  redlatch::MultiLock both({&redissons, &redlatchs});
  absl::StatusOr<redlatch::Lease> lease = both.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) return lease.status();
  Ship(order);
  return lease->Release();
}
// [/both]

int shipped = 0;
std::function<void()> while_shipping = [] {};
void Ship(int /*order*/) {
  ++shipped;
  while_shipping();
}

int the_price = 0;
int Price() { return the_price; }
void SetPrice(int price) { the_price = price; }

std::vector<redlatch::FencingToken> tokens;
absl::Status Write(redlatch::FencingToken token) {
  tokens.push_back(token);
  return absl::OkStatus();
}

void TestLocks(const redlatch::Client& client) {
  redlatch::redisson::Lock lock(client, "orders:41");
  ShipOne(lock, 1);
  ExpectOk(ShipAll(lock, 2));
  Expect(shipped == 3);

  redlatch::redisson::ReadWriteLock prices(client, "prices");
  WritePrice(prices, 7);
  Expect(ReadPrice(prices) == 7);

  redlatch::redisson::FencedLock fenced(client, "fenced");
  ExpectOk(WriteFenced(fenced));
  ExpectOk(WriteFenced(fenced));
  Expect(tokens[0].value() == 1);
  Expect(tokens[1].value() == 2);
}

// The three versions of the page exclude each other.
void TestBoth(const redlatch::Client& client, const redlatch::Client& other) {
  redlatch::redisson::Lock redissons(other, "orders:42");
  redlatch::ReentrantLock redlatchs(other, "new-orders:42");
  bool shipping = false;
  while_shipping = [&] {
    shipping = true;
    Expect(redlatch::IsBusy(redissons.TryAcquire().status()));
    Expect(redlatch::IsBusy(redlatchs.TryAcquire().status()));
  };
  ExpectOk(ShipUnderBoth(client, 1));
  Expect(shipping);

  for (redlatch::RedisLockBase* const one :
       std::initializer_list<redlatch::RedisLockBase*>{&redissons, &redlatchs}) {
    absl::StatusOr<redlatch::Lease> lease = one->Acquire({.wait = absl::Seconds(10)});
    ExpectOk(lease.status());
    std::atomic<bool> released = false;
    while_shipping = [&] { Expect(released); };
    std::jthread both([&] { ExpectOk(ShipUnderBoth(client, 2)); });
    released = true;
    ExpectOk(lease->Release());
  }
}

// The two kinds cannot have one name at the same time.
void TestOneName(const redlatch::Client& client, const redlatch::Client& other) {
  redlatch::redisson::Lock redissons(client, "orders:43");
  redlatch::ReentrantLock redlatchs(other, "orders:43");
  {
    const std::scoped_lock guard(redissons);
    const absl::Status refused = redlatchs.TryAcquire().status();
    Expect(redlatch::IsMisuse(refused));
    std::printf("%s\n", std::string(refused.message()).c_str());
  }
  ExpectOk(client.Ping().status());
  {
    const std::scoped_lock guard(redlatchs);
    Expect(redlatch::IsMisuse(redissons.TryAcquire().status()));
  }

  redlatch::redisson::Semaphore theirs(client, "printers");
  ExpectOk(theirs.TrySetPermits(2).status());
  redlatch::Semaphore ours(other, "printers", 2);
  Expect(redlatch::IsMisuse(ours.TryAcquire().status()));
}

int main() {
  const redlatch::Client client = Connected();
  const redlatch::Client other = Connected();
  TestLocks(client);
  TestBoth(client, other);
  TestOneName(client, other);
}
