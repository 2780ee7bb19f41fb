// The pieces of 03-leases-loss-fencing.md, and a program that runs them.
#include <thread>

#include "docs/code/expect.h"

// [renewed]
#include <cstdio>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/simple_lock.h"

absl::Status Backup(const redlatch::Client& client) {
  redlatch::SimpleLock lock(client, "backup", {.lease = absl::Seconds(5)});
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire();
  if (!lease.ok()) return lease.status();
  // ... for an hour, if necessary
  std::printf("%s left, unless renewed\n", absl::FormatDuration(lease->remaining()).c_str());
  return lease->Release();
}
// [/renewed]

// [manual]
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/redis_lock_base.h"

absl::Status InTwoSteps(redlatch::RedisLockBase& lock) {
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.lease = absl::Seconds(10)});
  if (!lease.ok()) return lease.status();
  // ... the first step takes at most 10 s
  absl::Status extended = lease->Extend(absl::Seconds(20));
  if (!extended.ok()) return extended;  // kAborted: it took too long
  // ... the second takes at most 20 s
  return lease->Release();
}
// [/manual]

// [stop]
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/run_locked.h"

void Send(const std::string& letter);

absl::Status SendAll(redlatch::RedisLockBase& lock, const std::vector<std::string>& letters) {
  return redlatch::RunLocked(lock, {.wait = absl::Seconds(5)}, [&](const std::stop_token& lost) {
    for (const std::string& letter : letters) {
      if (lost.stop_requested()) return absl::AbortedError("stopped halfway: the lock is lost");
      Send(letter);
    }
    return absl::OkStatus();
  });
}
// [/stop]

// [told]
#include <cstdio>

#include "redlatch/simple_lock.h"

redlatch::LockOptions Telling() {
  return {.on_lost = [](const redlatch::LostLease& lost) {
    std::printf("%s is lost: %s\n", lost.lock.c_str(), lost.reason.c_str());
  }};
}
// [/told]

// [whole]
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/redis_lock_base.h"

absl::Status Query(absl::Duration timeout);

absl::Status QueryUnder(redlatch::RedisLockBase& lock) {
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.whole_lease = true});
  if (!lease.ok()) return lease.status();
  absl::Status done = Query(lease->remaining());  // ends before the lock can be lost
  absl::Status released = lease->Release();
  return done.ok() ? released : done;
}
// [/whole]

// [store]
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/fencing_token.h"

// A balance in a file, next to the newest token that has been shown to it: "33 100".
class Account {
 public:
  explicit Account(const std::string& path) : fd_(open(path.c_str(), O_RDWR | O_CREAT, 0600)) {}
  ~Account() { close(fd_); }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  absl::StatusOr<int64_t> Read(redlatch::FencingToken token) { return Access(token, nullptr); }
  absl::Status Write(redlatch::FencingToken token, int64_t balance) {
    return Access(token, &balance).status();
  }

 private:
  // Compares and writes in one step: the flock keeps everyone else out.
  absl::StatusOr<int64_t> Access(redlatch::FencingToken token, const int64_t* new_balance) {
    if (flock(fd_, LOCK_EX) != 0) return absl::ErrnoToStatus(errno, "flock");
    absl::StatusOr<int64_t> balance = Locked(token, new_balance);
    flock(fd_, LOCK_UN);
    return balance;
  }

  absl::StatusOr<int64_t> Locked(redlatch::FencingToken token, const int64_t* new_balance) {
    char text[64] = {};
    uint64_t newest = 0;
    int64_t balance = 0;
    if (pread(fd_, text, sizeof text - 1, 0) < 0) return absl::ErrnoToStatus(errno, "read");
    std::sscanf(text, "%" SCNu64 " %" SCNd64, &newest, &balance);
    if (token.value() < newest) return absl::AbortedError("someone newer has been here");
    if (new_balance != nullptr) balance = *new_balance;
    const int size =
        std::snprintf(text, sizeof text, "%020" PRIu64 " %020" PRId64 "\n", token.value(), balance);
    if (pwrite(fd_, text, static_cast<size_t>(size), 0) != size) {
      return absl::ErrnoToStatus(errno, "write");
    }
    return balance;
  }

  const int fd_;
};
// [/store]

// [late]
#include <cstdio>

#include "absl/time/clock.h"
#include "redlatch/simple_lock.h"

void TwoWorkers(redlatch::SimpleLock& lock, Account& account) {
  // A takes the lock for 100 ms, with no renewal, and reads.
  absl::StatusOr<redlatch::Lease> a = lock.Acquire({.lease = absl::Milliseconds(100)});
  absl::StatusOr<int64_t> seen_by_a = account.Read(a->fencing_token());

  // A freezes. Meanwhile B gets the lock, reads, and writes.
  absl::StatusOr<redlatch::Lease> b = lock.Acquire();
  absl::StatusOr<int64_t> seen_by_b = account.Read(b->fencing_token());
  absl::Status written_by_b = account.Write(b->fencing_token(), *seen_by_b + 50);

  // A wakes up and knows nothing of this.
  absl::Status written_by_a = account.Write(a->fencing_token(), *seen_by_a - 10);

  std::printf("B: %s\nA: %s\n", written_by_b.ToString().c_str(), written_by_a.ToString().c_str());
}
// [/late]

namespace {

int sent = 0;
absl::Duration timeout_of_query;

}  // namespace

void Send(const std::string&) { ++sent; }

absl::Status Query(absl::Duration timeout) {
  timeout_of_query = timeout;
  return absl::OkStatus();
}

// Output: (5s|4\.[0-9]*s) left, unless renewed
// Output: forced is lost: .+
// Output: B: OK
// Output: A: ABORTED: someone newer has been here
int main() {
  const redlatch::Client client = Connected();
  ExpectOk(Backup(client));

  redlatch::SimpleLock lock(client, "a");
  ExpectOk(InTwoSteps(lock));

  ExpectOk(SendAll(lock, {"to Ann", "to Bob"}));
  Expect(sent == 2);
  const absl::Status lost_meanwhile =
      redlatch::RunLocked(lock, {}, [&](const std::stop_token& lost) {
        ExpectOk(lock.ForceRelease());
        while (!lost.stop_requested()) absl::SleepFor(absl::Milliseconds(1));
        return absl::OkStatus();
      });
  Expect(absl::IsAborted(lost_meanwhile));

  std::atomic<bool> told{false};
  redlatch::LockOptions options = Telling();
  options.on_lost = [&told, print = options.on_lost](const redlatch::LostLease& lost) {
    print(lost);
    told = true;
  };
  redlatch::SimpleLock forced(client, "forced", options);
  absl::StatusOr<redlatch::Lease> lease = forced.Acquire();
  ExpectOk(forced.ForceRelease());
  while (!told) absl::SleepFor(absl::Milliseconds(1));
  Expect(!lease->valid());

  const redlatch::Client other = Connected();
  redlatch::SimpleLock theirs(other, "handed over");
  redlatch::SimpleLock ours(client, "handed over");
  theirs.lock();
  std::thread waiter([&] { ExpectOk(QueryUnder(ours)); });
  while (theirs.Inspect()->waiting == 0) absl::SleepFor(absl::Milliseconds(1));
  theirs.unlock();
  waiter.join();
  Expect(timeout_of_query > absl::Seconds(20));

  Account account("account");
  ExpectOk(account.Write(redlatch::FencingToken(1), 100));
  redlatch::SimpleLock account_lock(client, "account");
  TwoWorkers(account_lock, account);
  absl::StatusOr<redlatch::Lease> now = account_lock.Acquire();
  Expect(*account.Read(now->fencing_token()) == 150);
}
