// The C++ program of 13-with-redisson.md, which does what Orders.java does.
// Runs: 4
// Output: 100 orders have been shipped
// [cpp]
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "redlatch/client.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/semaphore.h"

class Orders {
 public:
  explicit Orders(const redlatch::Client& client)
      : lock_(client, "orders:shipped"), printers_(client, "orders:printers") {}

  absl::Status Prepare() { return printers_.TrySetPermits(2).status(); }

  // At most two programs print at the same time.
  absl::Status PrintLabel() {
    absl::StatusOr<redlatch::Permit> permit = printers_.Acquire();
    if (!permit.ok()) return permit.status();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return permit->Release();
  }

  // Returns how many orders have been shipped. IsBusy(): the lock was busy for ten seconds.
  absl::StatusOr<int> Ship() {
    absl::StatusOr<redlatch::Lease> lease =
        lock_.Acquire({.wait = absl::Seconds(10), .lease = absl::Seconds(60)});
    if (!lease.ok()) return lease.status();
    int shipped = 0;
    std::ifstream("shipped.txt") >> shipped;
    std::ofstream("shipped.txt") << ++shipped;
    if (absl::Status released = lease->Release(); !released.ok()) return released;
    return shipped;
  }

 private:
  redlatch::redisson::Lock lock_;
  redlatch::redisson::Semaphore printers_;
};

absl::StatusOr<int> ShipTwentyFive(const char* url) {
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(url);
  if (!client.ok()) return client.status();
  Orders orders(*client);
  if (absl::Status prepared = orders.Prepare(); !prepared.ok()) return prepared;
  absl::StatusOr<int> shipped = 0;
  for (int i = 0; i < 25 && shipped.ok(); ++i) {
    if (absl::Status printed = orders.PrintLabel(); !printed.ok()) return printed;
    shipped = orders.Ship();
  }
  return shipped;
}

int main(int argc, char** argv) {
  const absl::StatusOr<int> shipped = ShipTwentyFive(argc > 1 ? argv[1] : "embedded:");
  if (!shipped.ok()) {
    std::puts(shipped.status().ToString().c_str());
    return 1;
  }
  std::printf("%d orders have been shipped\n", *shipped);
}
// [/cpp]
