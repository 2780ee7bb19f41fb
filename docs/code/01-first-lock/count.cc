// Runs: 4
// Output: 400
// [count]
#include <cstdio>
#include <fstream>
#include <mutex>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

int main() {
  // Starts a private Redis server; or connect to redis://host:6379.
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("embedded:");
  if (!client.ok()) {
    std::puts(client.status().ToString().c_str());
    return 1;
  }

  redlatch::SimpleLock lock(*client, "count");
  int count = 0;
  for (int i = 0; i < 100; ++i) {
    std::scoped_lock guard(lock);
    std::ifstream("count.txt") >> count;
    std::ofstream("count.txt") << ++count;
  }
  std::printf("%d\n", count);
}
// [/count]
