// Output: (reading|writing)
// [first]
#include <cstdio>
#include <mutex>
#include <shared_mutex>

#include "redlatch/client.h"
#include "redlatch/reentrant_read_write_lock.h"

int main() {
  // A private server of your own, started on the spot; or redis://host:6379.
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("embedded:");
  if (!client.ok()) {
    std::puts(client.status().ToString().c_str());
    return 1;
  }

  // The same lock in every process that names it so.
  redlatch::ReentrantReadWriteLock lock(*client, "prices");
  {
    std::shared_lock reading(lock);  // others may read too, from anywhere
    std::puts("reading");
  }
  {
    std::unique_lock writing(lock);  // no other thread reads or writes, anywhere
    std::puts("writing");
  }
}
// [/first]
