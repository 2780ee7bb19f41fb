#ifndef REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_H_
#define REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/wake_event.h"
#include "src/base/way_to_wait.h"
#include "src/redis/connect/connector.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply_parser.h"

namespace redlatch::redis {

class SharedConnection;

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
  // For Post(): the caller drains the connection soon. That sends it, together with other commands
  // posted by then.
  bool unhurried = false;
  // Set by ScriptRunner::Post(): where it was posted.
  std::shared_ptr<SharedConnection> at = nullptr;

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

  // Puts a command before all others; its reply is thrown away. REQUIRES: nothing is sent, as after
  // ConnectionLost().
  void Prepend(const Command& command) noexcept;

  size_t unsent_bytes() const { return unsent_.size(); }
  bool awaits_reply() const { return sent_ > 0; }

  // Swaps the unsent bytes into `empty`. From here on, their commands count as sent.
  void TakeUnsent(std::string& empty);

  // Gives a reply to its receiver; false if none was expected.
  bool Deliver(Reply reply, Finished& finished);

  // The connection is lost, and `rest`, the end of the bytes taken last, was never written. Fails
  // with `sent` each InFlight of which a byte was written, and with `unsent` those others for which
  // no thread waits. The remaining commands are unsent again.
  void ConnectionLost(std::string_view rest, const absl::Status& sent, const absl::Status& unsent,
                      Finished& finished) noexcept;

  // Removes and fails the unsent commands that `which` selects.
  void FailUnsent(absl::FunctionRef<bool(const InFlight*)> which, const absl::Status& why,
                  Finished& finished);

  // Takes an InFlight out. Its unsent commands will never execute and fail with `unsent`. Its sent
  // ones fail with `sent`, and their late replies are thrown away. Returns true if they were sent.
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
  };

  static void Fail(const InFlightCommands& commands, const absl::Status& why, Finished& finished);

  std::deque<InFlightCommands> commands_;
  size_t sent_ = 0;  // how many of `commands_`
  size_t size_ = 0;
  std::string unsent_;
};

// How the threads of a connection wait for replies: *eagerly*, reading again and again for a moment
// and yielding to each other in between, or *patiently*, asleep at once.
//
// Which way is faster depends on conditions that a program cannot see: whether the server is near,
// whether its processor sleeps, whether other processes compete for this one (a thread that yields
// then comes back late). So it is measured. For a single thread, the measure is the time of its
// calls, plus once more the time that it spun in vain. For many callers, it is the time between
// replies.
//
// Any thread may ask for the length; only the leader reports.
class SpinPolicy {
 public:
  // `length`: how long a single thread spins at most; zero: never.
  explicit SpinPolicy(absl::Duration length) : length_(length) {}

  // How long to spin in this wait before sleeping; zero: not at all.
  absl::Duration Length() const;

  // True if many callers share the connection: they yield to each other while they spin. A single
  // thread does not yield: it may come back a time slice late, and the server hardly needs this
  // processor.
  bool many_callers() const { return callers_per_read() > 1.5; }

  // One read brought the replies of this many callers.
  void Received(size_t replies);

  // A thread has become the leader.
  void Begun() { in_vain_ = absl::ZeroDuration(); }

  // The leader spun for that long and read nothing. The time counts twice: another thread, or the
  // server, may have needed the processor.
  void InVain(absl::Duration length) {
    if (!many_callers()) in_vain_ += length;
  }

  // The leader's own call has its reply.
  void Completed(base::Instant begun, base::Instant now);

 private:
  double callers_per_read() const { return callers_per_read_.load(std::memory_order_relaxed); }

  const absl::Duration length_;
  base::Atomic<double> callers_per_read_{1};  // smoothed
  base::WayToWait alone_{base::WayToWait::Options{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
  base::WayToWait many_{base::WayToWait::Options{.probe = 3, .interval = 16, .weight = 1.0 / 4}};
  absl::Duration in_vain_;  // of the present leader
  size_t replies_ = 0;      // since `counted_from_`
  base::Instant counted_from_;
};

struct SharedConnectionOptions {
  // If not a byte came for that long, a call that ends without a reply gives the connection up.
  absl::Duration stall_timeout = absl::Milliseconds(900);
  // The delay between attempts to connect that failed or were of no use (see ReconnectBackoff);
  // doubles, with jitter.
  absl::Duration first_backoff = absl::Milliseconds(10);
  absl::Duration longest_backoff = absl::Seconds(1);
  // How long a thread reads again and again before it sleeps in poll(), if that has paid lately;
  // zero: never.
  absl::Duration spin = absl::Microseconds(80);
  // Limit for commands that wait to be sent; more are refused.
  size_t backlog_bytes = size_t{64} << 20;
  // A lost connection was made again. The leader calls this while the connection is locked: it must
  // return at once and not call the connection.
  std::function<void()> on_reconnected;
  // No thread leads any more, though functions still wait for replies. The last leader calls this
  // at its end.
  std::function<void()> on_unread;
  // Gets each error reply, and how long the connection has lived. Returns why the connection must
  // be replaced, as by ReplaceConnection(); empty: it need not. Called as on_reconnected is.
  std::function<std::string(std::string_view error, absl::Duration connected_for)> after_error;
  // If an attempt to connect fails, every call that waits for it fails, and so do new calls for a
  // moment: another server may have the key by now.
  bool fail_fast = false;
  // The script with which each connection begins: see Handshake.
  std::optional<FirstScript> begin = std::nullopt;
  // The first commands of each accepted connection, before all that wait to be sent. Their replies
  // do not matter: they are for people, or only save time.
  std::vector<Command> first = {};
  TransportFactory open;  // empty: OpenTransport()
};

// One connection to a server, shared by any number of threads, with no thread of its own.
//
// The thread whose command finds the connection idle becomes its leader: it writes the command and
// reads the replies, its own and those of commands that come meanwhile. The threads of those, the
// followers, append their bytes to what the leader sends next (or write themselves if the leader
// sleeps in poll). They wait until their replies are in or they become the leader. The leader stops
// as soon as it has its own reply, and the follower whose reply is due next leads.
//
//   state            a command comes             its deadline comes
//   no connection    the leader connects         not sent: it never executes
//   connected        written at once             sent: its late reply is thrown away
//   stalled          written if there is room    connection given up after `stall_timeout`
//   being left       waits for the next one      sent: its late reply is thrown away
//
// If the connection breaks, the sent commands fail with kUnavailable and MayHaveExecuted(). Unsent
// ones wait for the next connection until their own deadline. If a server refuses the client
// (password, version, eviction policy), all waiting calls fail at once with its reason.
//
// Thread-safe. In a forked child every call fails with kFailedPrecondition. Destroy it when no call
// is in progress; a forked child may at any time delete one that was made by `new`.
class SharedConnection {
 public:
  explicit SharedConnection(const Url& url, SharedConnectionOptions options = {});
  ~SharedConnection();
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else. A
  // thread of the parent may have been inside this object during the fork.
  static void operator delete(SharedConnection* connection, std::destroying_delete_t);
  SharedConnection(const SharedConnection&) = delete;
  SharedConnection& operator=(const SharedConnection&) = delete;

  // Returns by `deadline`, with the server's reply (an error reply is a reply) or:
  //   kUnavailable                              no connection, or no reply in time
  //   kPermissionDenied, kFailedPrecondition    the server refuses this client
  absl::StatusOr<Reply> Call(const Command& command, base::Instant deadline);

  // Sends all commands at once. `results` has one element per command. Commands of other threads
  // may be sent before and after them, never in between. `fail_fast`: gives up if an attempt to
  // connect fails.
  void CallBatch(absl::Span<const Command> commands, base::Instant deadline,
                 absl::Span<absl::StatusOr<Reply>> results, bool fail_fast = false) noexcept;

  // Sends commands in one write and does not wait for the replies. `in_flight` has room for them,
  // and must live until they are in. If there is no connection, or it is being left, the result is
  // kUnavailable and nothing happens; in a forked child it is kFailedPrecondition. The next thread
  // that reads, in its own call or in Drain(), takes the replies in and calls `done`, which must
  // return at once. Of the connection, it may call Post() alone.
  //
  // Without `done`, this begins a call in two parts, for a thread that has other things to do
  // meanwhile. If it returns OK, one of these must follow. Finish() waits for the replies, as
  // CallBatch() does. Leave() sets a `done`, or returns false if the replies are in.
  absl::Status Post(absl::Span<const Command> commands, InFlight& in_flight) noexcept;
  void Finish(InFlight& mine, base::Instant deadline) noexcept;
  bool Leave(InFlight& mine, std::function<void()> done) noexcept;

  // Reads the replies to posted commands, until there are none to come or it is `until`. If another
  // thread reads, returns at once. True: each `done` has returned. Gives a stalled connection up,
  // as a call does.
  bool Drain(base::Instant until) noexcept;
  // For a caller that polls several connections and drains those that are ready to be read, or to
  // take unwritten bytes. No descriptor: another thread reads, there is no connection, or no reply
  // is due.
  Transport::Polled BeginPoll();

  // Makes the first connection, or says by `deadline` why the first attempt failed. Calls connect
  // by themselves; use this to know early.
  absl::Status Connect(base::Instant deadline);

  // The connection leads to the wrong server: unsent commands go over a new one, made to the URL's
  // present address. Sent ones are answered first. A reply that says that the server is a replica
  // does the same.
  void ReplaceConnection(std::string_view why);

  // The server that gets commands; nothing if there is no connection, or it is being left.
  std::optional<Peer> peer() const;

  struct Stats {
    uint64_t connects = 0;  // connections made
    uint64_t breaks = 0;    // connections lost or given up
    uint64_t late = 0;      // calls whose deadline came first
  };
  Stats stats() const;
  // The number of connections made so far; it identifies the present one.
  uint64_t made() const { return made_.load(std::memory_order_relaxed); }
  ServerInfo server_info() const;
  ConditionalDelete conditional_delete() const {
    return conditional_delete_.load(std::memory_order_relaxed);
  }
  const std::string& server() const { return server_; }

 private:
  static constexpr size_t kReadSize = size_t{64} << 10;
  static constexpr base::Instant kAtOnce{};  // a deadline: read without waiting
  // A connection that was idle for that long may have ended unnoticed.
  static constexpr absl::Duration kIdle = absl::Milliseconds(5);

  static constexpr uint32_t kDone = 1;  // the follower's results are in
  static constexpr uint32_t kLead = 2;  // the follower is the leader now

  // The status of each call in a forked child.
  absl::Status InForkedChild() const;
  // A refusal of Post().
  absl::Status NotSent(const char* why) const noexcept;
  // True if this thread has become the leader, false if `mine` is finished.
  bool Follow(InFlight& mine, base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void Lead(InFlight& mine, base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void GiveUp(InFlight& mine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveUpIfStalled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The status of a command that was sent and not answered.
  static absl::Status WhenSent(const std::string& why);
  void FailSent(const std::string& why, Finished& finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellFinished(const InFlight& mine, Finished& finished) ABSL_LOCKS_EXCLUDED(mu_);
  // True if the leader must continue: for its own results or, when draining, for those of
  // functions.
  bool GoesOn(const InFlight& mine) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The leader's steps. They release `mu_` while they wait.
  void Reconnect(InFlight& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Receive(const InFlight& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  IoResult Read(base::Instant deadline, bool may_spin) ABSL_LOCKS_EXCLUDED(mu_);
  IoResult ReadOnce();
  void HoldWriters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Break(Finished& finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Writes as much as the kernel takes. Called by the leader, or by a follower while the leader
  // sleeps.
  bool MayWrite() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeaveOnceAnswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same, and waits for other threads that write, until the kernel has all or takes no more.
  void WriteAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void InterruptLeader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const base::ForkGuard fork_guard_;
  const SharedConnectionOptions options_;
  const std::string server_;

  mutable base::Mutex mu_;
  InFlight* leader_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool leader_sleeps_ ABSL_GUARDED_BY(mu_) = false;  // in poll, on the connection
  Pipeline pipeline_ ABSL_GUARDED_BY(mu_);
  base::Atomic<bool> has_unsent_{false};  // in `pipeline_`; for the leader that spins
  base::Atomic<uint64_t> made_{0};        // connections
  base::Atomic<size_t> pending_done_{0};  // calls of `done` still to come

  bool writing_ ABSL_GUARDED_BY(mu_) = false;       // a thread is in Write(), without `mu_`
  bool writers_held_ ABSL_GUARDED_BY(mu_) = false;  // by the leader: no other thread may write
  base::Parker writer_left_;                        // set when a writer stops meanwhile
  // The readiness that the unwritten rest waits for; kNone: writing may be tried.
  Interest write_wants_ ABSL_GUARDED_BY(mu_) = Interest::kNone;
  std::string in_flight_ ABSL_GUARDED_BY(mu_);  // is not changed while `writing_`
  size_t in_flight_done_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t written_ ABSL_GUARDED_BY(mu_) = 0;  // bytes in all

  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<Peer> peer_ ABSL_GUARDED_BY(mu_);
  // Why the connection, or the one that is being made, takes no more commands.
  std::string leaving_ ABSL_GUARDED_BY(mu_);
  std::string doomed_ ABSL_GUARDED_BY(mu_);      // why the leader must give the connection up
  base::Instant progress_ ABSL_GUARDED_BY(mu_);  // the last byte read, or the first sent since
  ReconnectBackoff reconnect_ ABSL_GUARDED_BY(mu_);
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  ServerInfo info_ ABSL_GUARDED_BY(mu_);
  base::Atomic<ConditionalDelete> conditional_delete_{ConditionalDelete::kNone};  // as `info_` says
  Stats stats_ ABSL_GUARDED_BY(mu_);

  SpinPolicy spin_;

  // Used by the leader. A follower also uses the transport, to write while `connected_`; it is
  // replaced only if no thread is `writing_`. If it is not full-duplex, the leader holds the
  // writers while it reads, and lets them write while it waits.
  Connector connector_;
  base::WakeEvent wake_;  // gets the leader out of poll
  std::unique_ptr<Transport> transport_;
  bool full_duplex_ = false;  // the transport
  Interest read_wants_ = Interest::kRead;
  std::optional<ReplyParser> parser_;
  std::vector<Reply> arrived_;
  const std::unique_ptr<char[]> buffer_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_H_
