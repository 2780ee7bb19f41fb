#ifndef REDLATCH_SRC_REDIS_LINK_CONNECTION_H_
#define REDLATCH_SRC_REDIS_LINK_CONNECTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
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
#include "src/redis/connect/connector.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/link/gate.h"
#include "src/redis/link/listener.h"
#include "src/redis/link/pipeline.h"
#include "src/redis/link/spin_policy.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply_parser.h"

namespace redlatch::redis {

struct ConnectionOptions {
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
  // A message came. The thread that reads calls this and on_refused: they must return at once. Of
  // the connection, they may call Post() and Unsubscribe().
  std::function<void(std::string_view channel, std::string_view message)> on_message = nullptr;
  // The server denies this client a channel that was live, or does not serve its slot any more: the
  // channel is forgotten.
  std::function<void(std::string_view channel, const absl::Status& why)> on_refused = nullptr;
  // The next two are called while the connection is locked: they must return at once and not call
  // it. A lost connection was made again. Messages published meanwhile are lost: every waiter must
  // now ask the server. What it sends from here on comes after all subscriptions.
  std::function<void()> on_reconnected;
  // The connection was lost, or could not be made, while there are subscriptions.
  std::function<void()> on_down = nullptr;
  // Messages published before the first connection may be missed, too: call on_reconnected for it.
  bool first_is_again = false;
  // The channels are a cluster's, each in a slot.
  bool sharded = false;
  // If nothing came for that long while there are subscriptions, the server is pinged.
  absl::Duration ping_interval = absl::Seconds(30);
  // If a thread waits for messages, and a reply is due and nothing comes for that long, the
  // connection is given up.
  absl::Duration answer_timeout = absl::Seconds(2);
  // The thread that reads if no other does, and messages matter; null: one of its own.
  std::shared_ptr<Listener> listener = nullptr;
  Handshake::Purpose purpose = Handshake::Purpose::kCommands;
  Endpoint endpoint = nullptr;  // in place of the URL's
  // Gets each error reply, and how long the connection has lived. Returns why the connection must
  // be replaced, as by Replace(); empty: it need not. Called as on_reconnected is.
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

// One connection to a server, for commands and messages, shared by any number of threads.
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
// Messages come on the channels that are subscribed, in order with the replies, and the leader
// handles them. If no thread leads, another one watches the socket: the first of those that await a
// message, otherwise the listener. To exchange bytes, a leader takes the socket from the watcher,
// which sleeps on; see Gate. While there are subscriptions, the listener makes a lost
// connection again.
//
// If the connection breaks, the sent commands fail with kUnavailable and MayHaveExecuted(). Unsent
// ones wait for the next connection until their own deadline. If a server refuses the client
// (password, version, eviction policy), all waiting calls fail at once with its reason.
//
// Thread-safe. In a forked child every call fails with kFailedPrecondition. Destroy it when no call
// is in progress; a forked child may at any time delete one that was made by `new`.
class Connection final : private Listener::Member {
 public:
  explicit Connection(const Url& url, ConnectionOptions options = {});
  ~Connection();
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else. A
  // thread of the parent may have been inside this object during the fork.
  static void operator delete(Connection* connection,
                              std::destroying_delete_t) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

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
  // meanwhile. If it returns OK, Finish() must follow, which waits for the replies, as CallBatch()
  // does.
  absl::Status Post(absl::Span<const Command> commands, InFlight& in_flight) noexcept;
  void Finish(InFlight& mine, base::Instant deadline) noexcept;

  // Reads the replies to posted commands, until there are none to come or it is `until`. If another
  // thread reads, returns at once. True: each `done` has returned. Gives a stalled connection up,
  // as a call does.
  bool Drain(base::Instant until) noexcept;

  // Makes the first connection, or says by `deadline` why the first attempt failed. Calls connect
  // by themselves; use this to know early.
  absl::Status Connect(base::Instant deadline);

  // The connection leads to the wrong server: unsent commands go over a new one, made to the URL's
  // present address. Sent ones are answered first. A reply that says that the server is a replica
  // does the same.
  void Replace(std::string_view why);

  // ---- Messages.

  // OK when the server has acknowledged: from here on, messages of `channel` arrive, as long as the
  // connection lives, and again on the next one. kUnavailable: not by the deadline, but the
  // subscription continues in the background. If the server refuses the channel, its error is
  // returned, and the channel is forgotten.
  absl::Status Subscribe(std::string_view channel, base::Instant deadline);
  // The same, but does not wait for the acknowledgement: what is sent from here on comes after it.
  // If the server refuses the channel, on_refused is called, and the next call waits.
  absl::Status SubscribeAhead(std::string_view channel, base::Instant deadline);
  // Forgets the channel, and returns at once. No message of it is delivered any more.
  void Unsubscribe(std::string_view channel);

  // Sleeps until the parker, which the caller has armed, is set or `deadline` comes; returns its
  // value. If no other thread reads, this one does, which saves a hop between threads.
  uint32_t Await(base::Parker& parker, base::Instant deadline);
  // The same for several connections at once.
  static uint32_t AwaitAny(absl::Span<const std::shared_ptr<Connection>> all, base::Parker& parker,
                           base::Instant deadline);

  // Between a call that begins it and one that ends it, messages are read at once, even if no
  // thread awaits one, and a silent connection is noticed within two seconds.
  void KeepReading(bool begins);

  // Leaves the listener: without callers, no callback runs afterwards.
  void Stop();

  // True if there is a connection.
  bool connected() const { return now_connected_.load(std::memory_order_acquire); }
  // The server that gets commands; nothing if there is no connection, or it is being left.
  std::optional<Peer> peer() const;

  struct Stats {
    uint64_t connects = 0;  // connections made
    uint64_t breaks = 0;    // connections lost or given up
    uint64_t late = 0;      // calls whose deadline came first
    uint64_t messages = 0;
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

  // True if this thread has become the leader.
  bool TakeLead(InFlight& mine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Reads what is there, and waits for nothing. The watchers call it.
  void LeadOnce(bool by_listener);

  // The leader's steps. They release `mu_` while they wait.
  void Reconnect(InFlight& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NowConnected(Accepted made) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::optional<Accepted>> MakeStep(bool waits, base::Instant deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Receive(const InFlight& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  IoResult Read(base::Instant deadline, bool may_spin) ABSL_LOCKS_EXCLUDED(mu_);
  IoResult ReadOnce();
  void HoldWriters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Break(Finished& finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Writes as much as the kernel takes. Called by the leader, or by a follower while the leader
  // sleeps.
  bool MayWrite() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same as soon as that is possible: now, or when the leader has spun.
  void WriteSoon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeaveOnceAnswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same, and waits for other threads that write, until the kernel has all or takes no more.
  void WriteAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Lets the thread that reads see what has changed.
  void WakeReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // ---- Messages.
  struct Channel {
    bool live = false;   // acknowledged over this connection
    bool asked = false;  // for, over this connection
    // A caller counts on it without waiting: it was live, or Subscribe() ended before it was.
    bool promised = false;
  };
  // `ahead`: does not wait for the acknowledgement.
  absl::Status Subscribe(std::string_view channel, base::Instant deadline, bool ahead);
  absl::Status StartListening() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TellMessage(const std::string& channel, const std::string& message) noexcept;
  // Handles a push. Returns false if no server sends it.
  bool HandlePush(Reply& push, const InFlight& mine, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status RefusalOf(const std::string& error) const;
  void HandleRefusal(const std::string& channel, const std::string& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellRefused(const std::string& channel, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NotConnected() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Who watches the socket while no thread leads.
  enum class Watcher : uint8_t { kListener, kWaiter, kNone };
  // A thread in Await().
  struct Waiter {
    Connection* its;
    base::Parker* parker;
    Watched watched = {};  // the thread's own
    // Guarded by `mu_`. Only the first one watches.
    bool watches = false;
    Waiter* previous = nullptr;
    Waiter* next = nullptr;
  };
  class Wait;
  void BeginWaiting(Waiter& waiter);
  void EndWaiting(Waiter& waiter);
  void LetWaiterWatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BringListenerBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool StaysAway(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the socket from the watcher, and gives it back.
  void ShutGate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OpenGate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Pings a silent server, and gives up one that does not answer.
  void KeepAlive(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Duration AnswerTimeout() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Duration LongestSilence() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What a watcher polls now.
  Watched ToWatch(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Watched Serve() override;

  const base::ForkGuard fork_guard_;
  const ConnectionOptions options_;
  const std::string server_;

  mutable base::Mutex mu_;
  InFlight* leader_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool leader_sleeps_ ABSL_GUARDED_BY(mu_) = false;  // in poll, on the connection
  Pipeline pipeline_ ABSL_GUARDED_BY(mu_);
  base::Atomic<bool> has_unsent_{false};     // in `pipeline_`; for the leader that spins
  base::Atomic<uint64_t> made_{0};           // connections
  base::Atomic<bool> now_connected_{false};  // as `connected_`
  base::Atomic<size_t> pending_done_{0};     // calls of `done` still to come

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

  const std::shared_ptr<Listener> listener_;
  std::map<std::string, Channel, std::less<>> channels_ ABSL_GUARDED_BY(mu_);
  // Refused since they were last live.
  std::set<std::string, std::less<>> refused_ ABSL_GUARDED_BY(mu_);
  bool missed_ ABSL_GUARDED_BY(mu_);             // messages, since on_reconnected last ran
  bool listening_ ABSL_GUARDED_BY(mu_) = false;  // the listener serves this
  bool serving_ ABSL_GUARDED_BY(mu_) = false;    // the listener leads
  Watcher watcher_ ABSL_GUARDED_BY(mu_) = Watcher::kNone;
  bool must_return_ ABSL_GUARDED_BY(mu_) = false;  // the listener stays away and must return
  std::optional<base::Instant> nap_until_ ABSL_GUARDED_BY(mu_);  // while it stays away
  uint64_t reads_ ABSL_GUARDED_BY(mu_) = 0;         // by leaders, and waiters that watched
  uint64_t reads_at_nap_ ABSL_GUARDED_BY(mu_) = 0;  // when that began
  Waiter* first_waiter_ ABSL_GUARDED_BY(mu_) = nullptr;
  Waiter* last_waiter_ ABSL_GUARDED_BY(mu_) = nullptr;
  int keep_reading_ ABSL_GUARDED_BY(mu_) = 0;
  Gate gate_ ABSL_GUARDED_BY(mu_);
  base::WakeEvent watch_wake_;               // gets the waiter that watches out of poll
  Watched connecting_ ABSL_GUARDED_BY(mu_);  // what the listener's attempt to connect waits for

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

#endif  // REDLATCH_SRC_REDIS_LINK_CONNECTION_H_
