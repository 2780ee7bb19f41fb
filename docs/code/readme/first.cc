// Output: orders:42 is ours; fencing token [0-9]{16}
// [first]
#include <iostream>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

int main() {
  // Starts a private Redis server; for many machines, connect to redis://host:6379.
  auto client = redlatch::Client::Connect("embedded:");
  if (!client.ok()) return std::cerr << client.status() << "\n", 1;

  redlatch::SimpleLock lock(*client, "orders:42");
  auto lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) return std::cerr << lease.status() << "\n", 1;

  std::cout << "orders:42 is ours; fencing token " << lease->fencing_token().value() << "\n";
}  // the lease ends here, and the lock is free again
// [/first]
