// Output: orders:42 is ours; fencing token [0-9]{16}
// [first]
#include <cstdio>
#include <string>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

int main() {
  // A private Redis server of your own, started on the spot; or redis://host:6379.
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("embedded:");
  if (!client.ok()) {
    std::puts(client.status().ToString().c_str());
    return 1;
  }

  // The same lock in every process that names it so.
  redlatch::SimpleLock lock(*client, "orders:42");
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) {
    std::puts(lease.status().ToString().c_str());
    return 1;
  }

  std::printf("orders:42 is ours; fencing token %s\n",
              std::to_string(lease->fencing_token().value()).c_str());
}  // and free again
// [/first]
