// What the tests of the read-write lock's two sides have in common.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_READ_WRITE_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_API_READ_WRITE_FIXTURE_H_

#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"

namespace redlatch::conformance {

// Three clients and their locks. The heartbeats of those who wait are kLease / 3 apart: what comes
// sooner than kSoon was not left to one.
class ReadWriteConformance : public Conformance {
 protected:
  using Lock = ReentrantReadWriteLock;
  using Policy = Lock::Policy;

  static inline const absl::Duration kSoon = kLease / 6;

  std::unique_ptr<Lock> NewReadWrite(const Client& client, Policy policy = Policy::kWriterFirst) {
    return NewReadWrite(client, Options(), policy);
  }
  static std::unique_ptr<Lock> NewReadWrite(const Client& client, LockOptions options,
                                            Policy policy = Policy::kWriterFirst) {
    return std::make_unique<Lock>(client, kName, std::move(options), policy);
  }

  // As Try(), for the reader's side.
  static absl::StatusOr<Lease> TryRead(Lock& lock) {
    absl::StatusOr<Lease> lease = lock.AcquireRead({.wait = absl::ZeroDuration()});
    for (int i = 0; i < 100 && absl::IsUnavailable(lease.status()); ++i) {
      lease = lock.AcquireRead({.wait = absl::ZeroDuration()});
    }
    return lease;
  }
  // Of clients that have nothing to do with the calling thread's holds by others.
  static bool ReadersGetIn(Lock& lock) { return TryRead(lock).ok(); }
  static bool WritersGetIn(Lock& lock) { return Try(lock).ok(); }
  // A release is not waited for.
  static bool ReadersSoonGetIn(Lock& lock) {
    return Await([&] { return ReadersGetIn(lock); });
  }
  static bool WritersSoonGetIn(Lock& lock) {
    return Await([&] { return WritersGetIn(lock); });
  }

  // At the server: so many clients wait, and so many hold.
  bool AwaitWaiting(int64_t clients) {
    return Await([&] {
      const absl::StatusOr<LockInfo> info = lock_->Inspect();
      return info.ok() && info->waiting == clients;
    });
  }
  bool AwaitHolders(size_t clients) {
    return Await([&] {
      const absl::StatusOr<LockInfo> info = lock_->Inspect();
      return info.ok() && info->holders.size() == clients;
    });
  }

  const std::shared_ptr<Recorder> heard_ = std::make_shared<Recorder>();
  const Client client_ = NewClient({}, {.observer = heard_});
  const Client other_ = NewClient();
  const Client third_ = NewClient();
  const std::unique_ptr<Lock> lock_ = NewReadWrite(client_);
  const std::unique_ptr<Lock> theirs_ = NewReadWrite(other_);
  const std::unique_ptr<Lock> thirds_ = NewReadWrite(third_);
};

// With the local window and without; over TCP.
inline std::vector<Case> ReadWriteCases() {
  return Where(LockCases(), [](const Case& each) {
    const bool deployed = each.deployment.name == "tcp" || each.deployment.name == "no_window";
    return each.kind.name == "read_write" && deployed;
  });
}

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_READ_WRITE_FIXTURE_H_
