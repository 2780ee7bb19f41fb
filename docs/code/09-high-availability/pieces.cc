// The pieces of 09-high-availability.md, and a program that runs them.
#include <cstdio>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "docs/code/expect.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

// [acks]
absl::StatusOr<redlatch::Lease> AcquireForGood(redlatch::SimpleLock& lock) {
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) return lease.status();  // kUnavailable: too few replicas have confirmed it
  std::printf("%d replicas have it\n", lease->acked_by());
  return lease;
}

absl::Status Bill(const redlatch::Client& client, int replicas) {
  redlatch::SimpleLock lock(client, "billing", {.acks = {.replicas = replicas}});
  return AcquireForGood(lock).status();
}
// [/acks]

// Output: 0 replicas have it
int main() {
  const auto client = redlatch::Client::Connect("embedded:");
  ExpectOk(client.status());
  ExpectOk(Bill(*client, 0));
  Expect(absl::IsUnavailable(Bill(*client, 1)));  // an embedded server has none
}
