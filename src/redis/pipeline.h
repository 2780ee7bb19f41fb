#ifndef REDLATCH_SRC_REDIS_PIPELINE_H_
#define REDLATCH_SRC_REDIS_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/redis/codec.h"
#include "src/redis/reply.h"

namespace redlatch::redis {

// What one thread has asked for, on that thread's stack: its commands' results, and the word on
// which it sleeps. It may leave its frame when it has seen its parker say so, or when it has
// taken itself out of the pipeline.
struct Exchange {
  absl::Span<absl::StatusOr<Reply>> results;
  size_t open = 0;  // results still to come
  base::Instant begun;
  bool fail_fast = false;  // give up where the attempt to connect fails
  base::Parker parker;
};

// The exchanges whose last result came in; to be woken when the lock is let go.
using Finished = absl::InlinedVector<Exchange*, 64>;

// The commands of one connection in the order of the wire: those whose bytes were handed to a
// write, then those whose bytes wait. Pairs replies with who asked. No I/O, no lock of its own.
class Pipeline {
 public:
  // Null `exchange`: nobody wants the replies.
  void Append(absl::Span<const Command> commands, Exchange* exchange);

  const std::string& unsent() const { return unsent_; }
  bool awaits_reply() const { return sent_ > 0; }

  // Exchanges the unsent bytes for `empty`'s capacity; their commands count as sent from here.
  void TakeUnsent(std::string& empty);

  // Gives a reply to whom it belongs; false where none was due.
  bool Deliver(Reply reply, Finished& finished);

  // Fails everything that was sent: the connection is lost.
  void FailSent(const absl::Status& why, Finished& finished);

  // Removes and fails the unsent commands of the exchanges that `which` names.
  void FailUnsent(absl::FunctionRef<bool(const Exchange*)> which, const absl::Status& why,
                  Finished& finished);

  // Takes an exchange out: its unsent commands will never execute and fail with `unsent`, late
  // replies to those sent will be thrown away and they fail with `sent`. True where some were sent.
  bool Abandon(Exchange& exchange, const absl::Status& sent, const absl::Status& unsent);

  // The exchange whose result is due next; null where nobody waits.
  Exchange* FirstWaiting() const;

  size_t size() const { return expected_.size(); }

 private:
  struct Expected {
    Exchange* exchange;
    uint32_t index;
    uint32_t bytes;
  };
  static void Finish(const Expected& expected, absl::StatusOr<Reply> result, Finished& finished);

  std::deque<Expected> expected_;
  size_t sent_ = 0;
  std::string unsent_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_PIPELINE_H_
