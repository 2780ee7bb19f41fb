#ifndef REDLATCH_SRC_REDIS_LINK_PIPELINE_H_
#define REDLATCH_SRC_REDIS_LINK_PIPELINE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

class SharedConnection;

// What was asked for together, and who is to hear the answers: a thread, on whose stack this is, or
// a function. The thread may leave its frame when it has seen its parker say so, or when it has
// taken itself out of the pipeline.
struct InFlight {
  absl::Span<absl::StatusOr<Reply>> results;
  size_t open = 0;  // results still to come
  base::Instant begun;
  bool fail_fast = false;  // give up where the attempt to connect fails
  base::Parker parker;     // the word on which the thread sleeps
  // In place of the thread: called when all results are in. The exchange may go then.
  std::function<void()> done;
  // Of Post(), without `done`: the thread is elsewhere, and comes in Finish(). Until then it does
  // not lead.
  bool away = false;
  SharedConnection* at = nullptr;               // to which it was posted
  std::shared_ptr<const void> keeps = nullptr;  // keeps that connection's owner alive
  // Of Post(): whoever posts it drains the connection soon, and that sends it, with what else is
  // posted by then.
  bool unhurried = false;

  bool waits() const { return done == nullptr; }
};

// The exchanges whose last result came in; to be told when the lock is let go.
using Finished = absl::InlinedVector<InFlight*, 64>;

// The commands of one connection in the order of the wire: those whose bytes were handed to a
// write, then those whose bytes wait. Pairs replies with who asked. No I/O, no lock of its own.
//
// All but the moving of bytes costs time by the number of threads that ask, not of their commands.
class Pipeline {
 public:
  // Once for each exchange. Null `exchange`: the replies are thrown away. False: there is no memory
  // for the commands, and nothing has changed.
  bool Append(absl::Span<const Command> commands, InFlight* in_flight) noexcept;

  // Before all others; the reply is thrown away. REQUIRES: nothing is sent, as after
  // ConnectionLost().
  void Prepend(const Command& command);

  size_t unsent_bytes() const { return unsent_.size() - dead_bytes_; }
  bool awaits_reply() const { return sent_ > 0; }

  // Exchanges the unsent bytes for `empty`'s capacity; their commands count as sent from here.
  void TakeUnsent(std::string& empty);

  // Gives a reply to whom it belongs; false where none was due.
  bool Deliver(Reply reply, Finished& finished);

  // The connection is lost, and `rest`, the end of the bytes taken last, was never written. Fails
  // with `sent` every exchange of which a byte was, and with `unsent` those others for which no
  // thread waits. All else is unsent, be it again.
  void ConnectionLost(std::string_view rest, const absl::Status& sent, const absl::Status& unsent,
                      Finished& finished);

  // Removes and fails the unsent commands of the exchanges that `which` names.
  void FailUnsent(absl::FunctionRef<bool(const InFlight*)> which, const absl::Status& why,
                  Finished& finished);

  // Takes an exchange out: its unsent commands will never execute and fail with `unsent`, late
  // replies to those sent will be thrown away and they fail with `sent`. True where they were sent.
  bool Abandon(InFlight& in_flight, const absl::Status& sent, const absl::Status& unsent);

  // Of those for which a thread waits, and is there, the one whose result is due next; null: none.
  InFlight* FirstWaiting() const;

  // Commands whose replies have not come.
  size_t size() const { return size_; }

 private:
  // Commands that came together, or that nobody waits for; sent together or not at all.
  struct InFlightCommands {
    InFlight* in_flight;
    size_t bytes;
    size_t replies;  // still to come; 0: taken out, though its bytes are still in `unsent_`
    size_t index;    // of the next reply in the exchange's results
  };

  static void Fail(const InFlightCommands& commands, const absl::Status& why, Finished& finished);
  void TakeOut(InFlightCommands& commands);
  void Compact();

  std::deque<InFlightCommands> commands_;
  size_t sent_ = 0;  // of the segments
  size_t size_ = 0;
  std::string unsent_;
  size_t dead_bytes_ = 0;  // in `unsent_`, of segments that were taken out
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_PIPELINE_H_
