// The pieces of 01-first-lock.md, and a program that runs them.
#include "docs/code/expect.h"
#include "redlatch/simple_lock.h"

// [wait]
#include <cstdio>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/redis_lock_base.h"
#include "redlatch/status.h"

absl::Status SendTheBills(redlatch::RedisLockBase& lock) {
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(2)});
  if (redlatch::IsBusy(lease.status())) {
    std::puts("someone else is sending them");
    return absl::OkStatus();
  }
  if (!lease.ok()) return lease.status();  // for example, the server cannot be reached
  // ... send them
  return lease->Release();
}
// [/wait]

// [look]
#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/redis_lock_base.h"

void PrintHolders(const redlatch::RedisLockBase& lock) {
  absl::StatusOr<redlatch::LockInfo> info = lock.Inspect();
  if (!info.ok()) {
    std::puts(info.status().ToString().c_str());
    return;
  }
  for (const redlatch::LockInfo::Party& holder : info->holders) {
    std::printf("%s, process %lld on %s, holds it for %s\n", holder.process.program.c_str(),
                static_cast<long long>(holder.process.pid), holder.process.host.c_str(),
                absl::FormatDuration(holder.remaining).c_str());
  }
  std::printf("%lld waiting\n", static_cast<long long>(info->waiting));
}
// [/look]

// Output: someone else is sending them
// Output: .+, process [0-9]+ on .+, holds it for [0-9.]+s
// Output: 0 waiting
int main() {
  redlatch::SimpleLock lock(Connected(), "bills");
  ExpectOk(SendTheBills(lock));

  redlatch::SimpleLock of_another(Connected(), "bills");
  absl::StatusOr<redlatch::Lease> lease = of_another.Acquire();
  ExpectOk(lease.status());
  PrintHolders(lock);
  ExpectOk(SendTheBills(lock));
  ExpectOk(lease->Release());
}
