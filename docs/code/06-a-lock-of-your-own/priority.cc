// The use of the lock of 06-a-lock-of-your-own.md, and a program that checks it.
#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "docs/code/06-a-lock-of-your-own/priority_lock.h"
#include "docs/code/expect.h"

// [use]
#include <cstdio>

#include "redlatch/client.h"

// A person waits for the refund. Reports ask with a lower priority.
void Refund(const redlatch::Client& client) {
  PriorityLock lock(client, "ledger");
  absl::StatusOr<redlatch::Lease> lease = lock.AcquireWithPriority(9);
  if (lease.ok()) std::puts("refunding");
}
// [/use]

// [check]
#include "redlatch/conformance.h"

absl::Status CheckPriorityLock() {
  const auto make = [](const redlatch::Client& client, std::string_view name,
                       redlatch::LockOptions options) {
    return std::make_unique<PriorityLock>(client, name, std::move(options));
  };
  return redlatch::CheckConformance({.make = make, .url = "embedded:"});
}
// [/check]

// Output: refunding
int main() {
  const redlatch::Client client = Connected();
  Refund(client);

  // Four clients ask with priorities 1, 5, 9 and 9. The highest priority gets the lock first, and
  // equal priorities come in the order in which they asked.
  PriorityLock holder(client, "order");
  absl::StatusOr<redlatch::Lease> held = holder.Acquire();
  ExpectOk(held.status());
  std::vector<int> order;
  std::vector<std::jthread> waiters;
  const int priorities[] = {1, 5, 9, 9};
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&order, i, priority = priorities[i]] {
      PriorityLock lock(Connected(), "order");
      absl::StatusOr<redlatch::Lease> lease = lock.AcquireWithPriority(priority);
      ExpectOk(lease.status());
      order.push_back(i);  // under the lock
    });
    while (holder.Inspect()->waiting <= i) absl::SleepFor(absl::Milliseconds(1));
  }
  ExpectOk(held->Release());
  waiters.clear();
  Expect(order == std::vector<int>({2, 3, 1, 0}));
  ExpectOk(CheckPriorityLock());
}
