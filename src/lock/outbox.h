#ifndef REDLATCH_SRC_LOCK_OUTBOX_H_
#define REDLATCH_SRC_LOCK_OUTBOX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/lock/request_runner.h"
#include "src/lock/state/request.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/codec.h"

namespace redlatch::internal {

class ClientCore;

// Scripts that are sent without waiting for the answer: releases, and bids whose grant came first.
// The next thread that reads the connection gets the answer and gives it to the lock's machine; if
// none comes, the renewer reads it a few milliseconds later. A release that failed is then a debt
// like any other, which the renewer repeats. Thread-safe.
class Outbox {
 public:
  // One script that is under way. Used again and again.
  struct InFlight {
    PostedRequest posted;
    Entry* entry = nullptr;  // referred to, unless its sender is still there
    Request script;
    uint64_t hold = 0;  // that it releases
    size_t batch = 0;
  };

  explicit Outbox(ClientCore& core);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Sends the release of that hold, 0 if it was nobody's any more, and returns.
  void Send(Entry& entry, const Request& release, uint64_t hold);

  // Sends a bid whose answer is to be read later, behind Finish(), or by whoever reads it, behind
  // Leave(): one of them must follow. Null: it was not sent. The letter is gone with either.
  InFlight* Begin(Entry& entry, const Request& acquire);
  absl::StatusOr<redis::Reply> Finish(InFlight& letter, base::Instant deadline);
  void Leave(InFlight& letter);

  // For the renewer's thread: reads what has come, at the times that due() says.
  base::Instant due() const { return base::Instant::FromNanos(read_at_); }
  void Read();

  // Waits until all is answered, or it is `until`.
  void Flush(base::Instant until);
  // Answers that come from here on are ignored: the machines are gone.
  void Close() { closed_ = true; }

 private:
  InFlight& Take(Entry& entry, const Request& script);
  void GoesAlone(InFlight& letter);
  void GiveBack(InFlight& letter);
  void SeeToReading();
  void Answered(InFlight& letter);
  // The machine hears what became of a script, and of the hold that it released.
  void Feed(Entry& entry, const Request& script, uint64_t hold, const Result& result);

  ClientCore& core_;
  size_t under_way() const { return under_way_[0] + under_way_[1]; }

  // Of this batch and the one before. A batch ends when all of the one before are answered: so
  // a server that hangs is noticed, however many others answer.
  std::atomic<size_t> under_way_[2] = {};
  std::atomic<size_t> batch_{0};
  std::atomic<uint64_t> sent_{0};  // so far
  std::atomic<uint64_t> answered_{0};
  std::atomic<bool> closed_{false};
  // When to read next; Infinite(): nobody has sent anything for a while.
  std::atomic<int64_t> read_at_{base::Instant::Infinite().nanos()};
  // The renewer's: what was so when it read last.
  uint64_t sent_before_ = 0;
  uint64_t answered_before_ = 0;
  base::Instant waiting_since_;  // for the answers of the batch before
  int idle_reads_ = 0;           // in a row

  base::Mutex mu_;
  std::vector<std::unique_ptr<InFlight>> in_flight_count_ ABSL_GUARDED_BY(mu_);  // all there are
  std::vector<InFlight*> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_OUTBOX_H_
