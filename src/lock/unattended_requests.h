#ifndef REDLATCH_SRC_LOCK_UNATTENDED_REQUESTS_H_
#define REDLATCH_SRC_LOCK_UNATTENDED_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/lock/request_runner.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

class ClientCore;

// Sends releases without waiting for their results. The next thread that reads the connection
// passes the result to the lock state; if there is none, the background reads it a few milliseconds
// later. A release that failed becomes a pending cleanup, which the background repeats.
// Thread-safe.
class UnattendedRequests {
 public:
  explicit UnattendedRequests(ClientCore& core) : core_(core) {}
  UnattendedRequests(const UnattendedRequests&) = delete;
  UnattendedRequests& operator=(const UnattendedRequests&) = delete;

  // Sends the release of that hold and returns. `hold` is 0 if no caller has it.
  void Send(Entry& entry, const Request& release, uint64_t hold);

  // For the background's thread: reads the results that have come. due() says when.
  base::Instant due() const { return base::Instant::FromNanos(read_at_); }
  void Read();
  // Has them read now, since another client waits for what one of them says. On any thread.
  void ReadSoon();

  // Waits until all requests are answered, or until `until`.
  void Flush(base::Instant until);
  // Ignores all later results: the lock states are gone.
  void Close() { closed_ = true; }

 private:
  // One request in flight. The objects are reused.
  struct InFlight {
    RequestInFlight posted;
    Entry* entry = nullptr;  // counts as a reference
    Request request;
    uint64_t hold = 0;  // the hold that it releases, or 0
    size_t batch = 0;
  };

  InFlight& Prepare(Entry& entry, const Request& request);
  void GiveBack(InFlight& command);
  void ScheduleRead();
  void Answered(InFlight& command);

  ClientCore& core_;
  size_t count_in_flight() const { return in_flight_[0] + in_flight_[1]; }

  // Requests in flight of this batch and the previous one. A batch ends when the previous one is
  // answered completely. So a server that hangs is noticed even if others answer.
  base::Atomic<size_t> in_flight_[2] = {};
  base::Atomic<size_t> batch_{0};
  base::Atomic<uint64_t> sent_{0};  // in total
  base::Atomic<uint64_t> answered_{0};
  base::Atomic<bool> closed_{false};
  // When to read next. Infinite() if nothing was sent for a while.
  base::Atomic<int64_t> read_at_{base::Instant::Infinite().nanos()};
  // Used by the background only: the totals at the last read.
  uint64_t sent_before_ = 0;
  uint64_t answered_before_ = 0;
  base::Instant waiting_since_;  // for the results of the previous batch
  int idle_reads_ = 0;           // in a row

  base::Mutex mu_;
  std::vector<std::unique_ptr<InFlight>> commands_ ABSL_GUARDED_BY(mu_);  // all objects
  std::vector<InFlight*> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_UNATTENDED_REQUESTS_H_
