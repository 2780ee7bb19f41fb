#ifndef REDLATCH_SRC_LOCK_CONFIRMED_RELEASES_H_
#define REDLATCH_SRC_LOCK_CONFIRMED_RELEASES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/script_batch.h"
#include "src/lock/state/request.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::internal {

class ClientCore;
struct Entry;

// The latest releases that a server has confirmed to this client. They are repeated after a new
// connection: the server may be another one that has not received them, and would block the lock
// until the lease ends. Thread-safe.
class ConfirmedReleases {
 public:
  explicit ConfirmedReleases(ClientCore& core) : core_(core) {}
  ConfirmedReleases(const ConfirmedReleases&) = delete;
  ConfirmedReleases& operator=(const ConfirmedReleases&) = delete;

  // The server has confirmed that the grant of the request has ended.
  void Add(const Entry& entry, const Request& request, const ReleaseRequest& what);
  // A connection is new: repeats the releases that it concerns.
  void RepeatAll(const redis::ServerGroup::Concerned& concerned = nullptr);

  base::Instant due() const;
  // Returns what is due, for the background to run.
  ScriptBatch::Jobs TakeDue();

 private:
  struct Record {
    NamedLock lock;
    GrantId grant = 0;
    uint32_t permits = 1;
    absl::Duration lease;
    base::Instant expires;  // the grant has expired at every server
    int tries = 0;
  };
  void RepeatSoon(const Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeResult(Record record, const Result& result);

  ClientCore& core_;
  mutable base::Mutex mu_;
  std::vector<Record> latest_ ABSL_GUARDED_BY(mu_);  // a ring
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;             // the index of the next one
  // Releases that were sent before may have reached another server than the present one.
  base::Instant connected_at_ ABSL_GUARDED_BY(mu_);
  std::vector<Record> to_repeat_ ABSL_GUARDED_BY(mu_);
  base::Instant due_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_CONFIRMED_RELEASES_H_
