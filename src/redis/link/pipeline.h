#ifndef REDLATCH_SRC_REDIS_LINK_PIPELINE_H_
#define REDLATCH_SRC_REDIS_LINK_PIPELINE_H_

#include <cstddef>
#include <cstdint>
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

namespace redlatch::redis {

// Commands that were sent together, and the receiver of their results: a thread, on whose stack
// this is, or a function. The thread may leave its frame after its parker was set, or after it has
// taken this out of the pipeline.
struct InFlight {
  absl::Span<absl::StatusOr<Reply>> results;
  size_t open = 0;  // results still to come
  base::Instant begun;
  bool fail_fast = false;  // give up if an attempt to connect fails
  base::Parker parker;     // the thread sleeps on it
  // In place of the thread: called when all results are in. It may delete this object.
  std::function<void()> done;
  // Set by Post() without `done`: the thread is busy elsewhere, and does not lead until it calls
  // Finish().
  bool away = false;
  // The thread leaves as soon as there is a connection.
  bool leaves_once_connected = false;
  // For Post(): the caller drains the connection soon. That sends it, together with other commands
  // posted by then.
  bool unhurried = false;

  bool waits() const { return done == nullptr; }
};

// Commands whose last result has come. Their receivers are told once the lock is released.
using Finished = absl::InlinedVector<InFlight*, 64>;

// The commands of one connection, in the order of the wire: first those whose bytes were handed to
// a write, then the unsent ones. Pairs replies with their receivers. It does no I/O and has no
// lock.
class Pipeline {
 public:
  // Call it once per InFlight. False: there is no memory for the commands, and nothing has changed.
  bool Append(absl::Span<const Command> commands, InFlight& in_flight) noexcept;

  // Appends a command about a channel, which may have no receiver. False: as Append().
  enum class About : uint8_t { kNoChannel, kSubscribe, kUnsubscribe };
  bool AppendAbout(About about, std::string_view channel, bool sharded,
                   InFlight* in_flight) noexcept;

  // Appends a command whose reply is thrown away.
  void AppendUnanswered(const Command& command) noexcept;

  // Puts a command before all others; its reply is thrown away. REQUIRES: nothing is sent, as after
  // ConnectionLost().
  void Prepend(const Command& command) noexcept;
  void PrependSubscribes(absl::Span<const std::string* const> channels, bool sharded) noexcept;

  size_t unsent_bytes() const { return unsent_.size(); }
  bool awaits_reply() const { return sent_ > 0; }

  // Swaps the unsent bytes into `empty`. From here on, their commands count as sent.
  void TakeUnsent(std::string& empty);

  // Gives a reply to its receiver; false if none like it was expected. A subscription is answered
  // by a push, or by an error.
  bool Deliver(Reply reply, Finished& finished);
  // The channel if the next reply answers such a command, or null.
  const std::string* NextAbout(About about) const;

  // The connection is lost, and `rest`, the end of the bytes taken last, was never written. Fails
  // with `sent` each InFlight of which a byte was written, and with `unsent` those others for which
  // no thread waits. The remaining commands are unsent again.
  void ConnectionLost(std::string_view rest, const absl::Status& sent, const absl::Status& unsent,
                      Finished& finished) noexcept;

  // Removes and fails the unsent commands that `which` selects.
  void FailUnsent(absl::FunctionRef<bool(const InFlight*)> which, const absl::Status& why,
                  Finished& finished);

  // Takes an InFlight out. Its unsent commands will never execute and fail with `unsent`, except
  // that a subscription is still sent. Its sent ones fail with `sent`, and their late replies are
  // thrown away. Returns true if they were sent.
  bool Abandon(InFlight& in_flight, const absl::Status& sent, const absl::Status& unsent);

  // The first one whose thread waits and is not away; null: none.
  InFlight* FirstWaiting() const;

  // The number of commands whose replies have not come.
  size_t size() const { return size_; }

 private:
  // Commands that came together. They are sent together or not at all.
  struct InFlightCommands {
    InFlight* in_flight;  // null: the replies are thrown away
    size_t bytes;
    size_t replies;  // still to come
    size_t index;    // of the next reply, in the results
    About about = About::kNoChannel;
    std::string channel = {};
  };

  static void Fail(const InFlightCommands& commands, const absl::Status& why, Finished& finished);

  std::deque<InFlightCommands> commands_;
  size_t sent_ = 0;  // how many of `commands_`
  size_t size_ = 0;
  std::string unsent_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_PIPELINE_H_
