#ifndef REDLATCH_SRC_LOCK_EVENT_SCRIPT_H_
#define REDLATCH_SRC_LOCK_EVENT_SCRIPT_H_

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

// A request in flight for a task. It may outlive the task.
struct EventReply {
  EventReply(EventDriver& driver, EventTask& task);

  // Called by the thread that has read the reply.
  void Arrive();
  // Called by the driver when its task no longer needs the reply. Destroys it, now or when it
  // arrives.
  static void Abandon(EventReply* reply);
  bool HasArrived();

  const std::shared_ptr<EventDriver> driver;
  redis::InFlight in_flight;
  std::shared_ptr<std::atomic<size_t>> count_in_flight;  // includes this one until it arrives
  // The replies to the PING before the script, if there is one, and to the script; `ran` is the
  // result if another thread ran the request.
  absl::StatusOr<redis::Reply> answers[2];
  Result ran;

 private:
  EventTask* task_;  // guarded by the driver's mutex, as is `arrived_`
  bool arrived_ = false;
};

struct AbandonEventReply {
  void operator()(EventReply* reply) const { EventReply::Abandon(reply); }
};
using EventReplyPtr = std::unique_ptr<EventReply, AbandonEventReply>;

// Runs one script of a task: ClientCore::Run() without a thread. It waits for a connection, and
// sends the script again if the server does not know it or refuses it for now.
class EventScript {
 public:
  EventScript(EventDriver& driver, EventTask& task, Entry& entry, Request request,
              base::Instant until);
  EventScript(const EventScript&) = delete;
  EventScript& operator=(const EventScript&) = delete;

  // Continues. Returns the result as soon as it is there.
  std::optional<Result> Step(base::Instant now);
  void Hurry(base::Instant until) { until_ = std::min(until_, until); }
  // When to call Step() if nothing happens before.
  base::Instant due() const;
  const Request& request() const { return request_; }

 private:
  std::optional<Result> TakeReply(absl::StatusOr<redis::Reply> reply, base::Instant now);
  std::optional<Result> Try(base::Instant now);
  std::optional<Result> TakeResult(Result result, base::Instant now);
  Result End(const absl::StatusOr<redis::Reply>& reply);
  // Lets another thread run it: it needs several servers, or a new map of a cluster.
  void RunInBatch();
  bool Wanted();

  EventDriver& driver_;
  EventTask& task_;
  Entry& entry_;
  Request request_;
  base::Instant until_;
  base::Instant try_at_;
  absl::Status why_not_;  // why the request has not been sent yet
  base::Backoff backoff_;
  EventReplyPtr reply_;  // while the request is in flight
  bool in_batch_ = false;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_EVENT_SCRIPT_H_
