#ifndef REDLATCH_SRC_LOCK_COUNTS_H_
#define REDLATCH_SRC_LOCK_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
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

// The latest counts of latches that a server has confirmed to this client. They are repeated after
// a failover, since the new server may lack them. Thread-safe.
class Counts {
 public:
  struct Count {
    NamedLock latch;  // the owner is its incarnation
    std::string id;
    int64_t n = 0;
    uint64_t when = 0;  // by the server's clock, in microseconds
  };

  explicit Counts(ClientCore& core) : core_(core) {}
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  // The number of the connection; every new connection has another one.
  uint64_t era() const;
  // Adds a count that was sent in era `sent_in` or later. From then on the latest count is repeated
  // every `pace`, to notice a failover, until the latch is known to be open or gone. Counts of open
  // latches are repeated only on new connections.
  void Add(Count count, uint64_t sent_in, absl::Duration pace);
  // A connection is new: repeats all counts that it concerns.
  void RepeatAll(const redis::ServerGroup::Concerned& concerned = nullptr);

  base::Instant due() const;
  // Returns what is due, for the background to run.
  ScriptBatch::Jobs TakeDue();

 private:
  struct Record {
    Count count;
    uint64_t number = 0;  // identifies this record
    uint64_t era = 0;
    bool repeat = false;  // as all are after a failover
    bool open = false;    // the latch, at this server; its successor may not know of the count
  };
  // The counts that are being repeated.
  struct Round {
    uint64_t era = 0;
    std::vector<Record> records;
    std::vector<Result> results;
    size_t in_flight = 0;
  };

  absl::Duration Timeout() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool RepeatsAll() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The latest count of a latch that is not known to be open; null: there is none.
  const Record* Latest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MarkAll(const redis::ServerGroup::Concerned& concerned = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Answered(size_t index, const Result& result);
  void EndRound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if the repeat of the latest count has more to report.
  bool TakeResult(const Count& count, const Result& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ClientCore& core_;
  mutable base::Mutex mu_;
  uint64_t era_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Record> counts_ ABSL_GUARDED_BY(mu_);  // by `era`, then by `when`
  Round round_ ABSL_GUARDED_BY(mu_);
  int silent_ ABSL_GUARDED_BY(mu_) = 0;  // rounds in a row without an answer
  absl::Duration pace_ ABSL_GUARDED_BY(mu_) = absl::InfiniteDuration();
  base::Instant due_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_COUNTS_H_
