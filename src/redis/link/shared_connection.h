#ifndef REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_H_
#define REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/redis/connect/connector.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

struct SharedConnectionOptions {
  // A call that ends unanswered gives the connection up where not a byte came for so long.
  absl::Duration stall_timeout = absl::Milliseconds(900);
  // Between attempts to connect that failed, or made a connection of no use (comeback.h); doubles,
  // with jitter.
  absl::Duration first_backoff = absl::Milliseconds(10);
  absl::Duration longest_backoff = absl::Seconds(1);
  // How long a thread reads again and again before it sleeps in poll(), where that has paid
  // lately; zero: never.
  absl::Duration spin = absl::Microseconds(80);
  // Commands that wait to be sent; more are refused.
  size_t backlog_bytes = size_t{64} << 20;
  // A lost connection was made again. Called by the leader while the connection is locked: returns
  // at once and does not call the connection.
  std::function<void()> on_reconnected;
  // A server that was asked has turned out to be a replica. Called as on_reconnected; the
  // connection is given up, see MakeAnew().
  std::function<void()> on_replica;
  // The first command of each connection that the handshake has accepted, before whatever waits to
  // be sent; what the server says to it does not matter.
  std::optional<Command> introduction = {};
  TransportFactory open = OpenSocket;
};

// One connection to a server, shared by any number of threads, with no thread of its own.
//
// The thread whose command finds the connection idle becomes its leader: it writes the command
// and reads the replies, its own and those of commands that come meanwhile. Those threads, the
// followers, append their bytes to what the leader sends next (or write themselves where the
// leader sleeps in poll), and wait until their reply is in or they are made the leader. The
// leader goes as soon as it has its own reply, and the follower whose reply is due next leads.
//
//   state            a command comes             its deadline comes
//   no connection    the leader connects         not sent: it never executes
//   connected        written at once             sent: its late reply is thrown away
//   stalled          written where room is       connection given up after `stall_timeout`
//   being left       waits for the next one      sent: its late reply is thrown away
//
// A broken connection fails the commands that were sent with kUnavailable, and MayHaveExecuted()
// tells them from those that were not; whatever was not sent waits for the next connection until
// its own deadline. A server that refuses the client (password, version, eviction policy) fails
// all that wait, at once, with its reason.
//
// Thread-safe. In a forked child every call fails with kFailedPrecondition. Destroy it when no
// call is in progress; a forked child may at any time.
class SharedConnection {
 public:
  explicit SharedConnection(const Url& url, SharedConnectionOptions options = {});
  // In a forked child it only closes.
  ~SharedConnection();
  SharedConnection(const SharedConnection&) = delete;
  SharedConnection& operator=(const SharedConnection&) = delete;

  // Returns by `deadline`, with the server's answer (an error reply is an answer) or:
  //   kUnavailable                              no connection, or no answer in time
  //   kPermissionDenied, kFailedPrecondition    the server refuses this client
  absl::StatusOr<Reply> Call(const Command& command, base::Instant deadline);

  // Sends all commands at once and answers each: `results` has their number. Other threads'
  // commands may stand before and behind them on the wire, never between.
  void CallBatch(absl::Span<const Command> commands, base::Instant deadline,
                 absl::Span<absl::StatusOr<Reply>> results);

  // Sends a command and forgets it: the reply is thrown away when it comes. Does not wait for the
  // server: kUnavailable where there is no connection at the moment.
  absl::Status Send(const Command& command);

  // Makes the first connection, or tells by `deadline` why the first attempt failed. Calls
  // connect by themselves; this is for who wants to know early.
  absl::Status Connect(base::Instant deadline);

  // The connection leads to the wrong server: whatever it was not yet given goes over a new one,
  // made wherever the URL leads then. What was sent is answered first. A reply by which a server
  // says that it is a replica does the same.
  void MakeAnew(std::string_view why);

  // Whom commands go to; nothing while there is no connection, or it is being left.
  std::optional<Peer> peer() const;

  struct Stats {
    uint64_t connects = 0;  // connections made
    uint64_t breaks = 0;    // connections lost or given up
    uint64_t late = 0;      // calls whose deadline came first
  };
  Stats stats() const;
  ServerInfo server_info() const;
  const std::string& server() const { return server_; }

 private:
  class Impl;  // all but the answer to fork()
  absl::Status Refusal() const;

  const base::ForkGuard fork_guard_;
  const std::string server_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_H_
