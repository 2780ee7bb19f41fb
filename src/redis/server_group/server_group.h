#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/acks.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/redis/link/connection.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/transport/transport.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// What is known of a server, or of a whole group. In a cluster the ids are unknown.
struct ServerFacts {
  std::string name;                // for messages to people
  std::string primary_epoch = {};  // as it was told when it was connected; empty: unknown
  std::string run_id = {};         // of its present run; empty: unknown
  // How long a server that lost its replicas goes on granting, as far as known; the least possible
  // before the first connection.
  absl::Duration grants_alone_for = absl::ZeroDuration();
  Connection::Stats connections = {};  // the sum over all connections
};

// The state of a subscription to messages about a key.
struct Subscription {
  bool acknowledged = false;  // by the server, and it has not been given up since
  bool live = false;          // and the connection is up, as far as this client knows
};

// All that the library knows of servers. The group decides, by key, which server gets a command,
// and over which connection.
//
// Thread-safe. In a forked child it may only be destroyed: ClientCore::Refusal() comes first.
class ServerGroup {
 public:
  // They run on any thread, including one in a call of the group. They must return at once and call
  // only facts() of the group.
  struct Events {
    std::function<void(std::string_view message)> on_message;
    // A connection was lost and made again: all that was in flight may be lost. A thread of the
    // client's own must call TakeReconnected() soon.
    std::function<void()> on_reconnected;
    // At present no message arrives.
    std::function<void()> on_down = nullptr;
    // The server denies this client its channel, and why, or accepts it again.
    std::function<void(bool is_subscribed, std::string_view why)> on_subscribed;
    // A message came on a channel for which SubscribeTo() was called, or (if null) none will come
    // any more. Returns false if the channel is another one.
    std::function<bool(std::string_view channel, std::optional<std::string_view> message)>
        on_other_channel = nullptr;
  };

  virtual ~ServerGroup() = default;

  // The facts of the server that has the key; of the whole group if `key` is empty.
  virtual ServerFacts facts(std::string_view key) const = 0;
  // The primary epoch of the server that has the key. Empty: a script must ask for it. That is done
  // now and then, since a server that stepped down and came back has another one.
  std::string PrimaryEpoch(std::string_view key);

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

  // Reads the replies to posted and sent calls; see Connection::Drain().
  virtual bool Drain(base::Instant until) = 0;
  // Appends the connections that bring replies and messages; see Connection::AwaitAny().
  virtual void AppendConnections(std::vector<std::shared_ptr<Connection>>& connections) = 0;

  // ---- Messages from the servers.

  virtual Subscription subscription(std::string_view key) const = 0;
  // Subscribes; two threads may do so at once. kUnavailable: not by the deadline, but the
  // subscription continues in the background.
  virtual absl::Status Subscribe(std::string_view key, base::Instant deadline) = 0;

  // Subscribes to a channel of other programs, at the server that has the key; as Subscribe().
  // Forget() ends that, and returns at once. If the key moves to another server, the caller must
  // subscribe again.
  virtual absl::Status SubscribeTo(std::string_view /*key*/, const std::string& /*channel*/,
                                   base::Instant /*deadline*/) {
    return absl::FailedPreconditionError("these servers have no such channels");
  }
  virtual void Forget(const std::string& /*channel*/) {}

  // Between a call that begins it and one that ends it, messages about the key are read at once,
  // even if no thread awaits one. Each call that begins it needs one that ends it.
  virtual void KeepReading(std::string_view, bool /*begins*/) {}
  // Sleeps until the parker is set, as by a message; see Connection::Await().
  virtual uint32_t Await(std::string_view key, base::Parker& parker, base::Instant deadline) = 0;

  // A thread of the client's own calls this after on_reconnected.
  using Concerned = std::function<bool(std::string_view key)>;
  struct Reconnected {
    Concerned concerned = nullptr;  // true for keys whose locks are affected; null: all are
    bool reconnected = true;        // false: only a slot has moved
  };
  virtual Reconnected TakeReconnected() { return {}; }

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
  // Posts one command at a key. Its reply is dropped.
  absl::Status Send(std::string_view key, const Command& command);
  // Reads the strings at these keys; empty if there is none, or no reply.
  std::vector<std::string> Get(absl::Span<const std::string> keys, base::Instant deadline);

 protected:
  // `runner`: null if Run() and Post() are overridden.
  explicit ServerGroup(const ScriptRunner* runner, bool sharded = false)
      : runner_(runner), sharded_(sharded) {}

 private:
  const ScriptRunner* const runner_;
  const bool sharded_;                  // a cluster: keys and channels lie in slots
  base::Atomic<int64_t> epoch_due_{0};  // when a script must ask for the epoch, in ns
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SERVER_GROUP_H_
