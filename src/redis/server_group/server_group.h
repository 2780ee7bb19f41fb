#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/transport/transport.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

struct ServerIds {
  // The id of its replication stream. Empty: a script must ask for it. That is done now and then,
  // since a server that stepped down and came back has another one.
  std::string primary_epoch;
  std::string run_id;  // of its present run; empty if unknown
};

// All that the library knows of servers. The group decides, by key, which server gets a command,
// and over which connection. Each server has two, one for commands and one for messages, and both
// lead to the same server.
//
// Thread-safe. In a forked child it may only be destroyed: ClientCore::Refusal() comes first.
class ServerGroup {
 public:
  // They run on any thread, including one in a call of the group. They must return at once and call
  // only server() of the group.
  struct Events {
    std::function<void(std::string_view message)> on_message;
    // A connection was lost and made again: all that was in flight may be lost. A thread of the
    // client's own must call Realign() soon.
    std::function<void()> on_reconnected;
    // At present no message arrives.
    std::function<void()> on_down = nullptr;
    // Messages do not arrive, and why, or arrive again.
    std::function<void(bool is_subscribed, std::string_view why)> on_subscribed;
    // Replies to posted calls are still to come, but no thread reads any more.
    std::function<void()> on_unread = nullptr;
  };

  virtual ~ServerGroup() = default;

  // The server that has the key, for messages to people.
  virtual std::string server(std::string_view key) const = 0;
  // The known ids of that server.
  virtual ServerIds ids(std::string_view key) = 0;
  // How long a server that lost its replicas goes on granting, as far as known; the least possible
  // before the first connection.
  virtual absl::Duration grants_alone_for() const = 0;

  // Makes the first connections, or says by the deadline why that failed. Appends the servers'
  // warnings to `warnings`. Calls connect by themselves.
  virtual absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) = 0;

  // Runs the calls, wherever their keys are; see ScriptRunner.
  virtual void Run(absl::Span<const ScriptCall> calls, base::Instant deadline,
                   absl::Span<absl::StatusOr<Reply>> results,
                   StillWanted still_wanted = AlwaysWanted) {
    runner_->Run(calls, deadline, results, still_wanted);
  }
  // Runs the calls, and then waits for replicas; see AckedConnection. REQUIRES: it is no quorum.
  absl::StatusOr<base::Acks> RunAcked(absl::Span<const ScriptCall> calls,
                                      const base::AcksWanted& wanted, absl::Duration ack_timeout,
                                      base::Instant deadline,
                                      absl::Span<absl::StatusOr<Reply>> results) {
    return runner_->RunAcked(calls, wanted, ack_timeout, deadline, results);
  }
  // Sends a call to the server that has its key, and does not wait; see ScriptRunner::Post(). The
  // last of the results is its reply. If there are two, a PING goes before it.
  virtual absl::Status Post(const ScriptCall& call, InFlight& in_flight) {
    return runner_->Post(call, in_flight);
  }

  // Drain() reads the replies to posted and sent calls; see SharedConnection::Drain(). BeginPoll()
  // returns the connections that bring them, for a thread that polls several.
  virtual bool Drain(base::Instant until) = 0;
  virtual void BeginPoll(std::vector<Transport::Polled>& polled) = 0;

  // ---- Messages from the servers.

  // True if a subscription to messages about the key was acknowledged, and has not been given up
  // since.
  virtual bool subscribed(std::string_view key) const = 0;
  // The same, and the connection for messages is up, as far as this client knows.
  virtual bool subscribed_now(std::string_view key) const { return subscribed(key); }
  // Subscribes; two threads may do so at once. kUnavailable, by the deadline or when the stop is
  // requested: the subscription continues in the background.
  virtual absl::Status Subscribe(std::string_view key, base::Instant deadline,
                                 const std::stop_token& stop) = 0;

  // Between a call that begins it and one that ends it, messages about the key are read at once,
  // even if no thread awaits one. Each call that begins it needs one that ends it.
  virtual void KeepReading(std::string_view, bool /*begins*/) {}
  // Sleeps until the parker is set, as by a message; see Subscriber::Await().
  virtual uint32_t Await(std::string_view key, base::Parker& parker, base::Instant deadline) = 0;

  // True if the next script for the key must ask the server if this client is subscribed there.
  // NoteSubscribed() takes the answer; `asked`: when the script was sent.
  virtual bool asks_if_subscribed(std::string_view key) const = 0;
  virtual void NoteSubscribed(std::string_view key, bool is_subscribed, base::Instant asked) = 0;
  // Checks the subscription, because a wait for a message about the key is long, or one that began
  // at `missed_since` ended without the message that was due.
  virtual void CheckSubscription(std::string_view key, base::Instant now,
                                 std::optional<base::Instant> missed_since) = 0;

  // A thread of the client's own calls this after on_reconnected.
  using Concerned = std::function<bool(std::string_view key)>;
  struct Realigned {
    Concerned concerned = nullptr;  // true for keys whose locks are affected; null: all are
    bool reconnected = true;        // false: only a slot has moved
  };
  virtual Realigned Realign() = 0;

  using Stats = SharedConnection::Stats;  // the sum over the connections for commands
  virtual Stats stats() const = 0;

  // Ends the events. Calls can still be made.
  virtual void Stop() = 0;

  // Returns what the names of channels, and of keys that belong to no lock, must contain to lie
  // where `key` does: a hash tag and ':' in a cluster, otherwise nothing.
  std::string slot_tag(std::string_view key) const {
    return sharded_ ? TagOf(SlotOf(key)) + ":" : std::string();
  }

  // Runs one call, or one command at a key.
  absl::StatusOr<Reply> Run(const ScriptCall& call, base::Instant deadline,
                            StillWanted still_wanted = AlwaysWanted) {
    absl::StatusOr<Reply> result;
    Run(absl::MakeConstSpan(&call, 1), deadline, absl::MakeSpan(&result, 1), still_wanted);
    return result;
  }
  absl::StatusOr<Reply> Call(std::string_view key, const Command& command, base::Instant deadline) {
    return Run({.keys = absl::MakeConstSpan(&key, 1), .command = &command}, deadline);
  }
  // Posts one call, or one command. `done` gets the result of ResultOfPosted(), unless this fails.
  using Done = std::function<void(absl::StatusOr<Reply> result)>;
  absl::Status Send(const ScriptCall& call, Done done);
  absl::Status Send(std::string_view key, const Command& command) {
    return Send({.keys = absl::MakeConstSpan(&key, 1), .command = &command}, nullptr);
  }
  // Reads the strings at these keys; empty if there is none, or no reply.
  std::vector<std::string> Get(absl::Span<const std::string> keys, base::Instant deadline);

 protected:
  // `runner`: null if Run() and Post() are overridden.
  explicit ServerGroup(const ScriptRunner* runner, bool sharded = false)
      : runner_(runner), sharded_(sharded) {}

 private:
  const ScriptRunner* const runner_;
  const bool sharded_;  // a cluster: keys and channels lie in slots
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_
