// Output: orders:42 is ours; fencing token [0-9]{16}
// [first]
#include <iostream>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

int main() {
  // A private Redis server, started on the spot; or redis://host:6379, for many machines.
  auto client = redlatch::Client::Connect("embedded:");
  if (!client.ok()) return std::cerr << client.status() << "\n", 1;

  redlatch::SimpleLock lock(*client, "orders:42");
  auto lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) return std::cerr << lease.status() << "\n", 1;

  std::cout << "orders:42 is ours; fencing token " << lease->fencing_token().value() << "\n";
}  // and free again
// [/first]
