#ifndef REDLATCH_SRC_REDIS_LINK_SCRIPT_RUNNER_H_
#define REDLATCH_SRC_REDIS_LINK_SCRIPT_RUNNER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "redlatch/lua_script.h"
#include "src/base/acks.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/redis/connect/connector.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/link/connection.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

// A connection that runs scripts and then waits for replicas. It is separate, since nothing else
// can be sent during the wait, and since WAIT is about the connection that sends it: so this one is
// never replaced without the caller's knowledge. Thread-safe: callers take turns.
class AckedConnection {
 public:
  // `mark` makes a command that always writes, even if memory is full, at a key of its own in the
  // slot of the given key. It is sent before each WAIT: after commands that changed nothing, newer
  // servers answer WAIT without waiting for the earlier writes of others. `commands_peer` returns
  // the server that gets commands, and since when; if it returns nothing, an existing connection is
  // kept. `begin`: see Handshake.
  using Mark = std::function<Command(std::string_view key)>;
  AckedConnection(const Url& url, Mark mark, std::optional<FirstScript> begin,
                  std::function<std::optional<Peer>()> commands_peer);
  // In a forked child, in place of destruction: closes the descriptor and touches nothing else.
  static void operator delete(AckedConnection* connection, std::destroying_delete_t);
  AckedConnection(const AckedConnection&) = delete;
  AckedConnection& operator=(const AckedConnection&) = delete;

  // Fills `replies`, and returns how many replicas have all the commands, and everything written
  // before them: the replication stream keeps the order. `key` is the first command's. After an
  // error, nothing is known about replicas.
  absl::StatusOr<base::Acks> Run(absl::Span<const Command> commands, std::string_view key,
                                 const base::AcksWanted& wanted, absl::Duration ack_timeout,
                                 base::Instant deadline, absl::Span<absl::StatusOr<Reply>> replies);

 private:
  absl::Status Connect(base::Instant deadline);
  absl::StatusOr<base::Acks> Read(const Reply& mark, const Reply& answer, bool fsync) const;

  const Url url_;
  const std::string server_;
  const Mark mark_;
  const std::optional<FirstScript> begin_;
  const std::function<std::optional<Peer>()> commands_peer_;
  const base::ForkGuard fork_guard_;
  base::Mutex mu_;
  std::optional<Peer> peer_;  // of `connection_`, if known
  std::optional<PlainConnection> connection_;
};

// A command that runs in place of a script, at its key and with its arguments:
//
// - kSetIfNone is SET key value NX PX ms. It takes 0.4 us of the server, where a script takes 5.
// - kDeleteIfEqual is DELIFEQ key value, or DELEX key IFEQ value. An older server runs the script.
enum class Native : uint8_t { kNo, kSetIfNone, kDeleteIfEqual };

// One call of a script, or a command. Nothing is copied: everything must live until the call
// returns.
struct ScriptCall {
  const LuaScript* script = nullptr;
  absl::Span<const std::string_view> keys;
  absl::Span<const std::string_view> args;
  Native native = Native::kNo;
  const Command* command = nullptr;  // in place of a script; `keys` says which server gets it
  // In a quorum's batch: when no caller waits for this result any more, though the others continue.
  base::Instant until = base::Instant::Infinite();

  std::string_view key() const { return keys.empty() ? std::string_view() : keys.front(); }
};

// Called before a call is sent again; false ends the call with its present result.
using StillWanted = absl::FunctionRef<bool()>;
inline bool AlwaysWanted() { return true; }

// Returns the variant of a script for a cluster's nodes, with 'SPUBLISH' for 'PUBLISH' and
// 'SHARDNUMSUB' for 'NUMSUB', since its messages go to the node that serves the channel's slot. It
// is never deleted.
const LuaScript& ShardedScript(const LuaScript& script);

// Turns the reply to a posted call into a result; an error reply becomes a status. It is marked
// NotSent() if the server did not know the script, or does not have the key: Run() would send the
// call again.
absl::StatusOr<Reply> ResultOfPost(absl::StatusOr<Reply> answer, std::string_view server) noexcept;

// One server, as a ScriptRunner sees it: its connections, and what it knows of the server.
class ScriptServer {
 public:
  explicit ScriptServer(Connection* commands, AckedConnection* acked = nullptr)
      : commands_(commands), acked_(acked) {}

  Connection& commands() const { return *commands_; }
  // Called after NOSCRIPT: its scripts were flushed.
  void ForgetKnown() { known_over_ = 0; }

 private:
  friend class ScriptRunner;

  // True if the server knows the script, because this client posted it over this connection.
  bool Knows(const LuaScript& script);
  void Learns(const LuaScript& script);

  Connection* const commands_;
  AckedConnection* const acked_;
  // The known scripts by the addresses of their SHA-1s, over the connection of that number.
  std::array<base::Atomic<const char*>, 8> known_{};
  base::Atomic<uint64_t> known_over_{0};
};
using ScriptServerPtr = std::shared_ptr<ScriptServer>;

// Which server has a key, in a cluster. Thread-safe.
class ScriptRouter {
 public:
  // Returns the key's server; waits until it is known.
  virtual absl::StatusOr<ScriptServerPtr> OwnerOf(std::string_view key, base::Instant deadline) = 0;
  virtual bool IsOwnerOf(std::string_view key, const ScriptServer* server) const = 0;
  // Returns the server to which `from` redirects; null if the cluster names no such server.
  virtual ScriptServerPtr Follow(const Redirect& redirect, const ScriptServer& from,
                                 base::Instant deadline) = 0;
  // Asks the cluster which node serves which slots, and waits for the answer. False if the deadline
  // came first.
  virtual bool Refresh(base::Instant deadline) = 0;

 protected:
  ~ScriptRouter() = default;
};

// Runs scripts by their SHA-1, wherever their keys are. Only this class knows what to do if a
// server refuses a call before executing anything:
//
//   the server answers                 the call is sent again
//   NOSCRIPT                           with the script's text, which the server then keeps
//   LOADING, BUSY, READONLY …          after a pause (IsTransient() in errors.h)
//   MOVED                              to that server; the router learns it
//   ASK                                to that server after ASKING, once
//   TRYAGAIN, CLUSTERDOWN              after a pause, to the server that has the key then
//   nothing: it cannot be reached      to the server that has the key then, in a cluster
//
// All this happens within the caller's deadline. A call that may have been executed is never sent
// again. So no script may return an error of its own that begins like one of these. Thread-safe.
class ScriptRunner {
 public:
  // For a single server.
  explicit ScriptRunner(ScriptServer& server)
      : router_(nullptr), server_(ScriptServerPtr(), &server) {}
  // For a cluster; `name` is for messages.
  ScriptRunner(ScriptRouter& router, std::string name) : router_(&router), name_(std::move(name)) {}

  // Every call gets its own result. A script's error reply becomes ErrorStatus(). A command's error
  // reply is its result, unless it is a redirection, which is followed. The calls of a batch have
  // no order; those to one server travel in one write. If a server hangs, calls to others are sent
  // all the same; only those that must be sent again wait for it, by the deadline.
  void Run(absl::Span<const ScriptCall> calls, base::Instant deadline,
           absl::Span<absl::StatusOr<Reply>> results,
           StillWanted still_wanted = AlwaysWanted) const;
  absl::StatusOr<Reply> Run(const ScriptCall& call, base::Instant deadline) const {
    absl::StatusOr<Reply> result;
    Run(absl::MakeConstSpan(&call, 1), deadline, absl::MakeSpan(&result, 1));
    return result;
  }

  // Runs calls over connections of their own, and then waits for replicas; see AckedConnection.
  absl::StatusOr<base::Acks> RunAcked(absl::Span<const ScriptCall> calls,
                                      const base::AcksWanted& wanted, absl::Duration ack_timeout,
                                      base::Instant deadline,
                                      absl::Span<absl::StatusOr<Reply>> results) const;

  // Sends a call, or a command, and does not wait; see Connection::Post(). The first call of
  // a script over a connection carries its text.
  absl::Status Post(const ScriptCall& call, InFlight& in_flight) const;

 private:
  class Batch;

  // Encodes EVALSHA, or EVAL with the script's text; for a call without a script, its command.
  Command Encode(const ScriptCall& call, bool by_text, const ScriptServer& server) const;

  ScriptRouter* const router_;
  const ScriptServerPtr server_;  // without a router
  const std::string name_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SCRIPT_RUNNER_H_
