#ifndef REDLATCH_SRC_REDIS_LINK_SCRIPT_RUNNER_H_
#define REDLATCH_SRC_REDIS_LINK_SCRIPT_RUNNER_H_

#include <array>
#include <atomic>
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
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/redis/connect/connector.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

// A connection on which scripts are run, and replicas then waited for. That takes time in which
// nothing else can be asked there; and WAIT speaks of the connection that says it, so this one is
// never made anew without the caller's knowledge. Thread-safe: callers take turns.
class AckedConnection {
 public:
  // `mark`: a command that writes, whatever is there, and also where memory is full, at a key of
  // its own in the slot of the one it is given. Newer servers answer WAIT behind commands that
  // changed nothing without waiting for what others wrote before; so it stands before each WAIT.
  // `whom`: who is to be asked, and since when that is known; nothing: nobody knows, and a
  // connection that is there is kept.
  using Mark = std::function<Command(std::string_view key)>;
  AckedConnection(const Url& url, Mark mark, std::function<std::optional<Peer>()> whom);
  // In a forked child, in place of destruction: closes the descriptor and touches nothing else.
  static void operator delete(AckedConnection* connection, std::destroying_delete_t);
  AckedConnection(const AckedConnection&) = delete;
  AckedConnection& operator=(const AckedConnection&) = delete;

  // The replies to the commands, and which replicas have them all, and with them whatever was
  // written before: the replication stream keeps the order. `key`: of the first command. An error
  // if that is unknown: nothing may be concluded.
  absl::StatusOr<base::Acks> Run(absl::Span<const Command> commands, std::string_view key,
                                 const base::AcksWanted& wanted, absl::Duration patience,
                                 base::Instant deadline, absl::Span<absl::StatusOr<Reply>> replies);

 private:
  absl::Status Connect(base::Instant deadline);
  absl::StatusOr<base::Acks> Read(const Reply& mark, const Reply& answer, bool fsync) const;

  const Url url_;
  const std::string server_;
  const Mark mark_;
  const std::function<std::optional<Peer>()> whom_;
  const base::ForkGuard fork_guard_;
  base::Mutex mu_;
  std::optional<Peer> peer_;  // of `connection_`, where that was told
  std::optional<PlainConnection> connection_;
};

// One call of a script, or a command. Nothing is copied: all of it must live until the call
// returns.
struct ScriptCall {
  const LuaScript* script = nullptr;
  absl::Span<const std::string_view> keys;
  absl::Span<const std::string_view> args;
  const Command* command = nullptr;  // in place of a script; `keys` says where it belongs
  // Of a quorum's batch: no caller waits for this result any more, though the others go on.
  base::Instant until = base::Instant::Infinite();

  std::string_view key() const { return keys.empty() ? std::string_view() : keys.front(); }
};

// Asked before a call is sent again; false ends the call with the result that it has.
using StillWanted = absl::FunctionRef<bool()>;
inline bool AlwaysWanted() { return true; }

// The same script as a cluster's node is given it. Its messages go to the node that serves the
// channel's slot, so it says 'SPUBLISH' for 'PUBLISH' and 'SHARDNUMSUB' for 'NUMSUB'. Lives for
// ever.
const LuaScript& ShardedScript(const LuaScript& script);

// EVALSHA, or EVAL with the script's text; of a call without a script its command.
Command EncodeCall(const ScriptCall& call, bool by_text);

// What the answer to a posted call comes to: an error is a status. The call was not sent if the
// server did not know the script, or said that the key is elsewhere.
absl::StatusOr<Reply> ResultOfPosted(absl::StatusOr<Reply> answer, std::string_view server);

// One server, as a ScriptRunner sees it: its connections, and what it knows of the server.
class ScriptServer {
 public:
  struct Options {
    // How commands are sent from here on: to another server, if this one has become a replica.
    // Called while the connection is locked; see SharedConnectionOptions::after_error.
    std::function<void()> on_replica;
    bool loading_is_replicas = false;      // a replica that replaces its data
    bool no_replicas_is_replicas = false;  // it may have been cut off
  };
  ScriptServer(Options options, SharedConnection* commands, AckedConnection* acked = nullptr)
      : options_(std::move(options)), commands_(commands), acked_(acked) {}
  explicit ScriptServer(SharedConnection* commands) : ScriptServer({}, commands) {}

  SharedConnection& commands() const { return *commands_; }

  // SharedConnectionOptions::after_error: why an error means that the connection is to be left.
  std::string AfterError(std::string_view error, absl::Duration connected_for);

 private:
  friend class ScriptRunner;

  // Whether the server knows the script, since this client posted it over this connection.
  bool Knows(const LuaScript& script);
  void Learns(const LuaScript& script);

  const Options options_;
  SharedConnection* const commands_;
  AckedConnection* const acked_;
  // By the addresses of their SHA-1s, over the connection of that number.
  std::array<std::atomic<const char*>, 8> known_{};
  std::atomic<uint64_t> known_over_{0};
};
using ScriptServerPtr = std::shared_ptr<ScriptServer>;

// Which server has a key, in a cluster. Thread-safe.
class ScriptRouter {
 public:
  // Waits until that is known.
  virtual absl::StatusOr<ScriptServerPtr> OwnerOf(std::string_view key, base::Instant deadline) = 0;
  virtual bool IsOwnerOf(std::string_view key, const ScriptServer* server) const = 0;
  // The server to which `from` redirects; null if the cluster names no such server.
  virtual ScriptServerPtr Follow(const Redirect& redirect, const ScriptServer& from,
                                 base::Instant deadline) = 0;
  // Asks the cluster which node serves what, and waits for that until the deadline. False if the
  // deadline came first.
  virtual bool Refresh(base::Instant deadline) = 0;

 protected:
  ~ScriptRouter() = default;
};

// Runs scripts by their SHA-1, wherever their keys are. This is the only place that knows what to
// do if a server refuses a call before it executes anything:
//
//   the server answers                 the call is sent again
//   NOSCRIPT                           with the script's text, which also teaches it
//   LOADING, BUSY, READONLY …          after a pause (IsTransient() in errors.h)
//   MOVED                              to that server; the router learns it
//   ASK                                to that server behind ASKING, once
//   TRYAGAIN, CLUSTERDOWN              after a pause, to the server that has the key then
//   nothing: it cannot be reached      to the server that has the key then, in a cluster
//
// All within the caller's deadline. A call that may have been executed is never sent again. So no
// script may return an error of its own that begins as such a refusal does. Thread-safe.
class ScriptRunner {
 public:
  // For a single server.
  explicit ScriptRunner(ScriptServer& server)
      : router_(nullptr), server_(ScriptServerPtr(), &server) {}
  // For a cluster, which is called `name`.
  ScriptRunner(ScriptRouter& router, std::string name) : router_(&router), name_(std::move(name)) {}

  // Every call gets its own result. An error reply is a status, ErrorStatus(), to a script, and an
  // answer to a command, which is sent again only where a redirection leads. The calls of one
  // batch have no order among each other. Those to one server travel in one write. A server
  // that hangs does not delay the calls of another one, except that a lost connection to it may
  // take 50 ms to be made again.
  void Run(absl::Span<const ScriptCall> calls, base::Instant deadline,
           absl::Span<absl::StatusOr<Reply>> results,
           StillWanted still_wanted = AlwaysWanted) const;
  absl::StatusOr<Reply> Run(const ScriptCall& call, base::Instant deadline,
                            StillWanted still_wanted = AlwaysWanted) const;

  // The same over connections of their own, and then waits for replicas; see AckedConnection.
  absl::StatusOr<base::Acks> RunAcked(absl::Span<const ScriptCall> calls,
                                      const base::AcksWanted& wanted, absl::Duration patience,
                                      base::Instant deadline,
                                      absl::Span<absl::StatusOr<Reply>> results) const;

  // Sends a call and does not wait; see SharedConnection::Post(). The first call of a script over a
  // connection carries its text.
  absl::Status Post(const ScriptCall& call, InFlight& in_flight) const;

  // After `redirect`, the error of a server that was asked: whether it leads to a known server.
  // `redirects` counts; false also if the caller must pause first.
  bool Follow(const Redirect& redirect, const ScriptServer& from, base::Instant deadline,
              int& redirects) const;

 private:
  class Batch;

  ScriptRouter* const router_;
  const ScriptServerPtr server_;  // without a router
  const std::string name_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SCRIPT_RUNNER_H_
