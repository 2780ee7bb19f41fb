#ifndef REDLATCH_SRC_LOCK_ASYNC_SCRIPT_H_
#define REDLATCH_SRC_LOCK_ASYNC_SCRIPT_H_

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/lock/entry.h"
#include "src/lock/event_driver.h"
#include "src/lock/state/request.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/codec.h"

namespace redlatch::internal {

// What is on its way for a task, which may be gone when it comes back.
struct AsyncReply {
  AsyncReply(EventDriver& driver, AsyncTask& task);

  // By whoever reads, or has the answer.
  void Arrive();
  // By the driver: its task wants it no more. Destroys it, now or when it arrives.
  static void Abandon(AsyncReply* letter);
  bool HasArrived();

  const std::shared_ptr<EventDriver> driver;
  redis::InFlight in_flight;
  std::shared_ptr<std::atomic<size_t>> count_in_flight;  // counts it until it arrives
  // To the PING before the script, if there is one, and to the script; or of what a thread has run.
  absl::StatusOr<redis::Reply> answers[2];
  Result ran;

 private:
  AsyncTask* task_;  // guarded by the driver's mutex, as is this:
  bool arrived_ = false;
};

struct AbandonReply {
  void operator()(AsyncReply* letter) const { AsyncReply::Abandon(letter); }
};
using AsyncReplyPtr = std::unique_ptr<AsyncReply, AbandonReply>;

// One script of a task: as Core::Run(), in steps. It is sent again where the server does not know
// it, or refuses it for now, and waits for a connection.
class AsyncScript {
 public:
  AsyncScript(EventDriver& driver, AsyncTask& task, Entry& entry, Request request,
              base::Instant until);
  AsyncScript(const AsyncScript&) = delete;
  AsyncScript& operator=(const AsyncScript&) = delete;

  // Goes on with it; the answer, as soon as it is there.
  std::optional<Result> Step(base::Instant now);
  void Hurry(base::Instant until) { until_ = std::min(until_, until); }
  // When it goes on by itself.
  base::Instant due() const;
  const Request& request() const { return request_; }

 private:
  std::optional<Result> TakeReply(absl::StatusOr<redis::Reply> reply, base::Instant now);
  std::optional<Result> Try(base::Instant now);
  std::optional<Result> TakeResult(Result result, base::Instant now);
  Result End(const absl::StatusOr<redis::Reply>& reply);
  // It needs several servers' votes, or a map of them: another thread waits for it.
  void RunInBatch();
  bool Wanted();

  EventDriver& driver_;
  AsyncTask& task_;
  Entry& entry_;
  Request request_;
  base::Instant until_;
  base::Instant try_at_;
  absl::Status why_not_;  // sent yet
  base::Backoff backoff_;
  AsyncReplyPtr reply_;  // while it is on its way
  bool in_batch_ = false;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ASYNC_SCRIPT_H_
