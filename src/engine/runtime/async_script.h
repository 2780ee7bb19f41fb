#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_SCRIPT_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_SCRIPT_H_

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/engine/machine/script_io.h"
#include "src/engine/runtime/async_driver.h"
#include "src/engine/runtime/entry.h"
#include "src/redis/link/pipeline.h"
#include "src/redis/wire/reply.h"

namespace redlatch::engine {

// What is on its way for a task, which may be gone when it comes back.
struct AsyncLetter {
  AsyncLetter(AsyncDriver& driver, AsyncTask& task);

  // By whoever reads, or has the answer.
  void Arrive();
  // By the driver: its task wants it no more. Destroys it, now or when it arrives.
  static void Abandon(AsyncLetter* letter);
  bool HasArrived();

  const std::shared_ptr<AsyncDriver> driver;
  redis::Exchange exchange;
  std::shared_ptr<std::atomic<size_t>> in_flight;  // counts it until it arrives
  // To the PING before the script, if there is one, and to the script; or of what a thread has run.
  absl::StatusOr<redis::Reply> answers[2];
  Answer ran;

 private:
  AsyncTask* task_;  // guarded by the driver's mutex, as is this:
  bool arrived_ = false;
};

struct AbandonLetter {
  void operator()(AsyncLetter* letter) const { AsyncLetter::Abandon(letter); }
};
using AsyncLetterPtr = std::unique_ptr<AsyncLetter, AbandonLetter>;

// One script of a task: as Core::Run(), in steps. It is sent again where the server does not know
// it, or refuses it for now, and waits for a connection.
class AsyncScript {
 public:
  AsyncScript(AsyncDriver& driver, AsyncTask& task, Entry& entry, Send send, base::Instant until);
  AsyncScript(const AsyncScript&) = delete;
  AsyncScript& operator=(const AsyncScript&) = delete;

  // Goes on with it; the answer, as soon as it is there.
  std::optional<Answer> Step(base::Instant now);
  void Hurry(base::Instant until) { until_ = std::min(until_, until); }
  // When it goes on by itself.
  base::Instant due() const;
  const Send& send() const { return send_; }

 private:
  std::optional<Answer> TakeReply(absl::StatusOr<redis::Reply> reply, base::Instant now);
  std::optional<Answer> Try(base::Instant now);
  Answer End(const absl::StatusOr<redis::Reply>& reply);
  // It needs several servers' votes, or a map of them: another thread waits for it.
  void RunInARound();
  bool Wanted();

  AsyncDriver& driver_;
  AsyncTask& task_;
  Entry& entry_;
  Send send_;
  base::Instant until_;
  base::Instant try_at_;
  absl::Status why_not_;  // sent yet
  base::Backoff backoff_;
  AsyncLetterPtr letter_;  // while it is on its way
  bool by_text_ = false;
  bool in_a_round_ = false;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_SCRIPT_H_
