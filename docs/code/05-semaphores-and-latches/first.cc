// Output: done
// [first]
#include <cstdio>
#include <thread>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/semaphore.h"

int main() {
  // A private server of your own, started on the spot; or redis://host:6379.
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("embedded:");
  if (!client.ok()) {
    std::puts(client.status().ToString().c_str());
    return 1;
  }

  // Every process that takes part uses the same names.
  redlatch::Semaphore desks(*client, "desks", 2);
  redlatch::CountDownLatch done(*client, "first-steps:2026-11-20", 5);

  std::vector<std::thread> workers;
  for (int i = 0; i < 5; ++i) {
    workers.emplace_back([&] {
      desks.acquire();  // two at a time
      std::puts("working");
      desks.release();
      absl::Status counted = done.CountDown();  // or done.count_down(), which throws
      if (!counted.ok()) std::puts(counted.ToString().c_str());
    });
  }
  done.wait();  // for all five
  std::puts("done");
  for (std::thread& worker : workers) worker.join();
}
// [/first]
