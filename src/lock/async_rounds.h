#ifndef REDLATCH_SRC_LOCK_ASYNC_ROUNDS_H_
#define REDLATCH_SRC_LOCK_ASYNC_ROUNDS_H_

#include <functional>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/lock/script_codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::internal {

class ClientCore;

// Asynchronous scripts that cannot be posted, since they need the votes of several servers, a
// cluster redirects them, or they are no part of a grant; and the thread that waits for them, so
// that the driver need not: those that are due go together, and what comes meanwhile goes next. The
// thread starts when it is first needed. Thread-safe.
class AsyncRounds {
 public:
  explicit AsyncRounds(ClientCore& core) : core_(core) {}
  AsyncRounds(const AsyncRounds&) = delete;
  AsyncRounds& operator=(const AsyncRounds&) = delete;

  using Then = std::function<void(absl::StatusOr<redis::Reply>)>;
  // Calls `then`, which must not call the core: at once if no thread can be started, else soon
  // after the latest `until` of its round at the latest.
  void Run(Entry& entry, EncodedRequest request, base::Instant until, Then then);
  // The same at a quorum.
  using OnResult = std::function<void(Result)>;
  void Run(Entry& entry, const Request& request, base::Instant until, OnResult on_result);
  // Ends the thread, when the round under way is over; the rest fails.
  void Stop();

 private:
  struct Job {
    Entry* entry;  // referred to
    std::variant<EncodedRequest, Request> request;
    base::Instant until;
    Then then;
    OnResult on_result = nullptr;  // of a Request, in place of the other
  };
  using Jobs = std::vector<Job>;

  void Work();
  void Add(Job job);
  void RunTogether(Jobs jobs);
  void RunAtQuorum(Jobs& jobs, base::Instant until);
  void Finish(Job& job, absl::StatusOr<redis::Reply> reply);

  ClientCore& core_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Jobs jobs_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ASYNC_ROUNDS_H_
