#ifndef REDLATCH_SRC_REDIS_CHANNEL_H_
#define REDLATCH_SRC_REDIS_CHANNEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/base/unique_fd.h"
#include "src/redis/codec.h"
#include "src/redis/connector.h"
#include "src/redis/pipeline.h"
#include "src/redis/reply.h"
#include "src/redis/spin_policy.h"
#include "src/redis/url.h"

namespace redlatch::redis {

struct ChannelOptions {
  // A call that ends unanswered gives the connection up where not a byte came for so long.
  absl::Duration stall_timeout = absl::Milliseconds(900);
  // Between attempts to connect that failed; doubles, with jitter.
  absl::Duration first_backoff = absl::Milliseconds(10);
  absl::Duration longest_backoff = absl::Seconds(1);
  // How long a thread reads again and again before it sleeps in poll(), where that has paid
  // lately; zero: never.
  absl::Duration spin = absl::Microseconds(80);
  // Commands that wait to be sent; more are refused.
  size_t backlog_bytes = size_t{64} << 20;
  // A lost connection was made again. Called by the leader while the channel is locked: returns at
  // once and does not call the channel.
  std::function<void()> on_reconnected;
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
//
// A broken connection fails the commands that were sent with kUnavailable, and MayHaveExecuted()
// tells them from those that were not; whatever was not sent waits for the next connection until
// its own deadline. A server that refuses the client (password, version, eviction policy) fails
// all that wait, at once, with its reason.
//
// Thread-safe. In a forked child every call fails with kFailedPrecondition. Destroy it when no
// call is in progress.
class Channel {
 public:
  explicit Channel(const Url& url, ChannelOptions options = {});
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

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

  struct Stats {
    uint64_t connects = 0;  // connections made
    uint64_t breaks = 0;    // connections lost or given up
    uint64_t late = 0;      // calls whose deadline came first
  };
  Stats stats() const;
  ServerInfo server_info() const;
  const std::string& server() const { return server_; }

 private:
  static constexpr size_t kReadSize = size_t{64} << 10;
  static constexpr base::Instant kAtOnce{};  // a deadline: what is there, without waiting

  static constexpr uint32_t kDone = 1;  // to a follower: all your results are in
  static constexpr uint32_t kLead = 2;  // you are the leader now

  void Run(absl::Span<const Command> commands, Exchange& mine, base::Instant deadline);
  // True where following ended in leadership, false where `mine` is finished.
  bool Follow(Exchange& mine, base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void Lead(Exchange& mine, base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void GiveUp(Exchange& mine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void WakeFinished(const Exchange& mine, Finished& finished);

  // The leader's steps. They let go of `mu_` while they wait.
  void Reconnect(Exchange& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::optional<Connection>> Attempt(base::Instant deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Receive(const Exchange& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  IoResult Read(base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void Break(Finished& finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Writes what the kernel takes; the leader's, or a follower's while the leader sleeps.
  bool MayWrite() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void InterruptLeader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Refusal() const;

  const base::ForkGuard fork_guard_;
  const ChannelOptions options_;
  const std::string server_;

  mutable base::Mutex mu_;
  Exchange* leader_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool leader_sleeps_ ABSL_GUARDED_BY(mu_) = false;  // in poll, on the connection
  Pipeline pipeline_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> has_unsent_{false};  // in `pipeline_`; for the leader that spins

  bool writing_ ABSL_GUARDED_BY(mu_) = false;        // somebody is in send, without `mu_`
  bool write_blocked_ ABSL_GUARDED_BY(mu_) = false;  // the kernel takes no more for now
  // The writer left a connection that was lost. No CondVar: where a forked child destroys one for
  // which a thread of its parent waited, it waits for that thread for ever.
  base::Parker writer_left_;
  std::string in_flight_ ABSL_GUARDED_BY(mu_);  // is not changed while `writing_`
  size_t in_flight_done_ ABSL_GUARDED_BY(mu_) = 0;

  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  std::string doomed_ ABSL_GUARDED_BY(mu_);      // why the leader must give the connection up
  base::Instant progress_ ABSL_GUARDED_BY(mu_);  // the last byte read, or the first sent since
  base::Instant next_attempt_ ABSL_GUARDED_BY(mu_);
  base::Backoff backoff_ ABSL_GUARDED_BY(mu_);
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  ServerInfo info_ ABSL_GUARDED_BY(mu_);
  Stats stats_ ABSL_GUARDED_BY(mu_);

  SpinPolicy spin_;

  // The leader's own. A follower uses the transport too, to write while `connected_`; it is
  // replaced only where nobody is `writing_`.
  Connector connector_;
  base::UniqueFd wake_fd_;  // gets the leader out of poll; made with the first connection
  std::unique_ptr<Transport> transport_;
  std::optional<ReplyParser> parser_;
  std::vector<Reply> arrived_;
  const std::unique_ptr<char[]> buffer_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CHANNEL_H_
