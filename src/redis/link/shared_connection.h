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

// How the threads of a connection wait for replies: *eagerly*, looking again and again for a moment
// and giving way to each other in between, before they sleep; or *patiently*, asleep at once.
//
// Which is faster depends on things no program can see: whether the server is near, whether its
// processor sleeps, whether others compete for this one (who gives way then comes back late). So
// it is measured: for one thread alone by the time of its calls, and once more that of looks which
// found nothing; for a crowd by the time from answer to answer, which is what a crowd is slow or
// fast in.
//
// Any thread may ask; whoever leads the connection tells.
class SpinPolicy {
 public:
  // `length`: how long one thread alone is eager, at most; zero: never.
  explicit SpinPolicy(absl::Duration length) : length_(length) {}

  // How long to look before sleeping, in this wait; zero: not at all.
  absl::Duration Length() const;

  // Whether several threads take turns: they give way to each other between looks. One alone does
  // not: who gives way may come back a time slice late, and the server hardly needs this processor.
  bool crowded() const { return crowd() > 1.5; }

  // So many callers have their answers by one read.
  void Received(size_t replies);

  // A thread leads from here on.
  void Begun() { in_vain_ = absl::ZeroDuration(); }

  // Its look, which was so long, has found nothing. It is charged twice: others may have wanted the
  // processor, and the server may be one of them.
  void InVain(absl::Duration length) {
    if (!crowded()) in_vain_ += length;
  }

  // The leader's own call has its reply.
  void Completed(base::Instant begun, base::Instant now);

 private:
  double crowd() const { return crowd_.load(std::memory_order_relaxed); }

  const absl::Duration length_;
  std::atomic<double> crowd_{1};  // callers whom one read answers, smoothed
  base::WayToWait alone_{base::WayToWait::Options{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
  base::WayToWait in_crowd_{
      base::WayToWait::Options{.probe = 3, .interval = 16, .weight = 1.0 / 4}};
  absl::Duration in_vain_;  // of the thread that leads
  size_t replies_ = 0;      // since `counted_from_`
  base::Instant counted_from_;
};

struct SharedConnectionOptions {
  // A call that ends unanswered gives the connection up where not a byte came for so long.
  absl::Duration stall_timeout = absl::Milliseconds(900);
  // Between attempts to connect that failed, or made a connection of no use (reconnect_backoff.h);
  // doubles, with jitter.
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
  // Nobody leads any more, though answers are still to come that are functions' own. Called by the
  // last leader, at its end.
  std::function<void()> on_unread;
  // Told of each error reply, and for how long the connection has been there: why it is to be left,
  // as MakeAnew() does; empty: it is not. Called as on_reconnected.
  std::function<std::string(std::string_view error, absl::Duration connected_for)> after_error;
  // An attempt to connect that fails ends every call that waits for it, and one that was in vain a
  // moment ago those that come: another server may have what this one was asked for.
  bool fail_fast = false;
  // The first commands of each connection that the handshake has accepted, before whatever waits to
  // be sent; what the server says to them does not matter.
  std::vector<Command> first = {};
  TransportFactory open;  // empty: OpenTransport()
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
// call is in progress; a forked child may at any time delete one that was made by `new`.
class SharedConnection {
 public:
  explicit SharedConnection(const Url& url, SharedConnectionOptions options = {});
  ~SharedConnection();
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  // Threads that are not there any more may have been in the midst of it.
  static void operator delete(SharedConnection* connection, std::destroying_delete_t);
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

  // The server's answer to what was sent, or as Call() says: the connection was lost, or is gone.
  using Done = std::function<void(absl::StatusOr<Reply> answer)>;

  // Sends a command and does not wait for the server: kUnavailable, and nothing more, if there is
  // no connection at the moment or it is being left, kFailedPrecondition in a forked child. The
  // answer comes to whichever thread reads next, in a call of its own or in Drain(), and is given
  // to `done` there; without `done` it is thrown away. `done` returns at once and calls nothing of
  // the connection.
  absl::Status Send(const Command& command, Done done = nullptr);
  // The same for several, in one write; `done` is given their answers together.
  using AllDone = std::function<void(absl::Span<absl::StatusOr<Reply>> answers)>;
  absl::Status SendAll(absl::Span<const Command> commands, AllDone done);
  // The same; the commands in flight have their results and `done`, and live until that is called.
  absl::Status Post(absl::Span<const Command> commands, InFlight& in_flight);

  // One without `done` is a call in two parts, for a thread that has something better to wait for:
  // if Post() is OK, one of the others must follow. Finish() waits for the answers, as CallBatch()
  // does; Leave() gives it a `done`, or is false: the answers are in.
  static void Finish(InFlight& mine, base::Instant deadline) {
    mine.at->FinishMine(mine, deadline);
  }
  static bool Leave(InFlight& mine, std::function<void()> done) {
    return mine.at->LeaveMine(mine, std::move(done));
  }

  // Reads the answers to what was sent so, until there are none to come or it is `until`; where
  // another thread reads, that does it, and this returns at once. True: each `done` has returned. A
  // connection that stalls is given up, as by a call.
  bool Drain(base::Instant until) noexcept;
  // For who polls several connections, and drains those that are ready: to be read, or for what is
  // still to be written. No descriptor: another thread reads, there is no connection, or nothing is
  // to be answered on it.
  Transport::Polled BeginPoll();

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
  // How many connections were made so far: a number for the present one.
  uint64_t made() const { return made_.load(std::memory_order_relaxed); }
  ServerInfo server_info() const;
  const std::string& server() const { return server_; }

 private:
  static constexpr size_t kReadSize = size_t{64} << 10;
  static constexpr base::Instant kAtOnce{};  // a deadline: what is there, without waiting
  static constexpr absl::Duration kIdle = absl::Milliseconds(5);  // it may have ended meanwhile

  static constexpr uint32_t kDone = 1;  // to a follower: all your results are in
  static constexpr uint32_t kLead = 2;  // you are the leader now

  struct Sent;

  absl::Status Refusal() const;
  absl::Status PostFor(absl::Span<const Command> commands, InFlight* in_flight) noexcept;
  void FinishMine(InFlight& mine, base::Instant deadline) noexcept;
  bool LeaveMine(InFlight& mine, std::function<void()> done) noexcept;
  // `mine` has its results, and nothing else yet.
  void Run(absl::Span<const Command> commands, InFlight& mine, base::Instant deadline) noexcept;
  // True where following ended in leadership, false where `mine` is finished.
  bool Follow(InFlight& mine, base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void Lead(InFlight& mine, base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void GiveUp(InFlight& mine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveUpIfStalled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What a command ends with that was sent, and for that reason not answered.
  static absl::Status WhenSent(const std::string& why);
  void FailSent(const std::string& why, Finished& finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellFinished(const InFlight& mine, Finished& finished) ABSL_LOCKS_EXCLUDED(mu_);
  // Whether the leader is to go on: for its own results, or, draining, for those of functions.
  bool GoesOn(const InFlight& mine) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The leader's steps. They let go of `mu_` while they wait.
  void Reconnect(InFlight& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::optional<Connection>> Attempt(base::Instant deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Receive(const InFlight& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  IoResult Read(base::Instant deadline, bool may_spin) ABSL_LOCKS_EXCLUDED(mu_);
  IoResult ReadOnce();
  void HoldWriters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Break(Finished& finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Writes what the kernel takes; the leader's, or a follower's while the leader sleeps.
  bool MayWrite() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeaveOnceAnswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void InterruptLeader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const base::ForkGuard fork_guard_;
  const SharedConnectionOptions options_;
  const std::string server_;

  mutable base::Mutex mu_;
  InFlight* leader_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool leader_sleeps_ ABSL_GUARDED_BY(mu_) = false;  // in poll, on the connection
  Pipeline pipeline_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> has_unsent_{false};  // in `pipeline_`; for the leader that spins
  std::atomic<uint64_t> made_{0};        // connections
  std::atomic<size_t> untold_{0};        // exchanges whose `done` is still to be called

  bool writing_ ABSL_GUARDED_BY(mu_) = false;       // somebody is in Write(), without `mu_`
  bool writers_held_ ABSL_GUARDED_BY(mu_) = false;  // by the leader: nobody else begins to write
  base::Parker writer_left_;                        // while they were held
  // What the rest waits for; kNone: nothing has kept it from being written.
  Interest write_wants_ ABSL_GUARDED_BY(mu_) = Interest::kNone;
  std::string in_flight_ ABSL_GUARDED_BY(mu_);  // is not changed while `writing_`
  size_t in_flight_done_ ABSL_GUARDED_BY(mu_) = 0;

  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<Peer> peer_ ABSL_GUARDED_BY(mu_);
  std::string stale_ ABSL_GUARDED_BY(mu_);       // why the one that is being made is to be left
  std::string leaving_ ABSL_GUARDED_BY(mu_);     // why no further command goes over the connection
  std::string doomed_ ABSL_GUARDED_BY(mu_);      // why the leader must give the connection up
  base::Instant progress_ ABSL_GUARDED_BY(mu_);  // the last byte read, or the first sent since
  ReconnectBackoff reconnect_ ABSL_GUARDED_BY(mu_);
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  ServerInfo info_ ABSL_GUARDED_BY(mu_);
  Stats stats_ ABSL_GUARDED_BY(mu_);

  SpinPolicy spin_;

  // The leader's own. A follower uses the transport too, to write while `connected_`; it is
  // replaced only where nobody is `writing_`. Where it is not full-duplex, the leader holds the
  // writers whenever it reads, and lets them write while it waits.
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
