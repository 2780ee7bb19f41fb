#ifndef REDLATCH_SRC_REDIS_CONNECT_CONNECTOR_H_
#define REDLATCH_SRC_REDIS_CONNECT_CONNECTOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/redis/connect/endpoint.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// When to connect again. The first attempt after a connection is lost is made at once. Those that
// follow are held back, longer each time, until a connection has been of use: it brought much, or
// something and lived for a while. A server that accepts, answers and hangs up is not hurried.
class ReconnectBackoff {
 public:
  ReconnectBackoff(absl::Duration first_backoff, absl::Duration longest_backoff)
      : backoff_(first_backoff, longest_backoff) {}

  base::Instant next_attempt() const { return next_attempt_; }

  void Failed() { next_attempt_ = base::Now() + backoff_.Next(); }
  void Made() {
    made_ = base::Now();
    heard_ = 0;
  }
  // So many answers or messages came.
  void Heard(size_t count) { heard_ += count; }
  void Lost() {
    const base::Instant now = base::Now();
    if (heard_ >= kMuch || (heard_ > 0 && made_ + kAWhile <= now)) {
      backoff_.Reset();
      held_back_ = false;
    }
    next_attempt_ = std::exchange(held_back_, true) ? now + backoff_.Next() : now;
  }

 private:
  static constexpr size_t kMuch = 16;
  static constexpr absl::Duration kAWhile = absl::Milliseconds(250);

  base::Backoff backoff_;
  base::Instant next_attempt_;
  base::Instant made_;
  size_t heard_ = 0;
  bool held_back_ = false;  // the next attempt after a loss
};

// What is said over a transport that is connected, and what is heard. One thread at a time.
struct Dialogue {
  std::unique_ptr<Transport> transport;
  std::string unwritten;
  std::string unwritable;  // why a write failed
  ReplyParser parser;
  std::vector<Reply> replies;
  Interest read_wants = Interest::kRead;
  Interest write_wants = Interest::kNone;  // of the rest, when Write() was last called

  // Both never block. An error is the bare reason, and the connection is of no more use:
  // kFailedPrecondition where somebody must mend something first, else kUnavailable.

  // What the rest wants, which is kNone where all is written. Where the server hangs up, nothing is
  // left, since it may have said why before.
  Interest Write();
  // Whether anything came; what is whole of it is in `replies`, also where that is an error. To be
  // called when what it wants has come.
  absl::StatusOr<bool> Read();

  // Writes all, and reads until there are so many replies. False where `deadline` came first, or
  // `wake_fd` (or -1) became readable; the next call goes on.
  absl::StatusOr<bool> GoOn(size_t count, base::Instant deadline, int wake_fd = -1);
};

// A connection that has been greeted and accepted, ready for commands.
struct Connection {
  Dialogue dialogue;
  ServerInfo info;
  Target target;
};

// Whom a connection leads to, and since when.
struct Peer {
  Target target;
  base::Instant since;
};

// Where to connect to, whatever the URL leads to by now; nothing: where the URL leads.
using Whereabouts = std::function<std::optional<Target>()>;

// Makes connections: finds the addresses, connects to one, shakes hands. An address that cannot be
// reached, or whose server cannot serve now, as a replica can't, leaves the turn to the next. The
// thread that calls does the work, and where its deadline comes first, the attempt stays as it is
// and the next call goes on with it; so callers of little patience get connected too, together. One
// attempt takes no longer than the URL's connect_timeout. Not thread-safe.
//
// A connection for commands that reaches another server, or a restarted one, is made twice, the
// second time to another address if the host has several. If two primaries answer, as behind a load
// balancer, each has locks of its own, and the server is refused. It is accepted if the second
// connection cannot be made soon, or if the user may not run INFO.
class Connector {
 public:
  // No `open`: OpenTransport(). No `endpoint`: where the URL leads. `where`, if given, is asked
  // first; after an attempt there has failed, the next one goes where the URL leads.
  Connector(const Url& url, Handshake::Purpose purpose, TransportFactory open = nullptr,
            std::unique_ptr<Endpoint> endpoint = nullptr, Whereabouts where = nullptr);

  // A connection; nothing where `deadline` came first; an error where the attempt has failed:
  // kUnavailable where another may succeed. The call after an error begins a new attempt.
  // `wake_fd` (or -1) becoming readable ends the call like the deadline does.
  absl::StatusOr<std::optional<Connection>> Step(base::Instant deadline, int wake_fd = -1);

  // The same for who must not block, and calls again when what it awaits has come, which it is told
  // where there is nothing yet.
  absl::StatusOr<std::optional<Connection>> Poll(Awaited* awaited);

  // Drops the attempt under way, its socket with it.
  void Abandon() { attempt_.reset(); }
  // In a forked child: closes its socket, and touches nothing else.
  void CloseInForkedChild() {
    if (!attempt_.has_value()) return;
    attempt_->dialogue.transport.reset();
    if (attempt_->made) attempt_->made->dialogue.transport.reset();
  }

 private:
  struct Attempt {
    base::Instant began;
    base::Instant deadline;
    bool told_where = false;  // `where` has named the target
    std::vector<Target> targets;
    size_t next_target = 0;
    base::Instant target_deadline;
    absl::Duration patience;  // of the present socket, for the server's first word
    base::Instant patient_until;
    Dialogue dialogue;
    bool connected = false;
    std::string last_error;
    int last_errno = 0;
    absl::Status refusal;  // by the last server that was reached, or why no targets are known
    std::optional<Connection> made;  // the first of the two
    std::string two;  // if the servers differ: what that means if the first is still there

    const Target& target() const { return targets[next_target - 1]; }
    void GoOn(absl::Status why);  // from a server that was reached to the next target
    void BeginSecond(Connection first);
    void AskFirst(std::string what);
  };
  enum class Progress { kReady, kOutOfTime };
  using Outcome = absl::StatusOr<Progress>;

  absl::StatusOr<std::optional<Connection>> Proceed(base::Instant limit, int wake_fd);
  void BeginAttempt();
  bool Moved() const;
  absl::StatusOr<std::optional<Connection>> Failed(absl::Status why);
  absl::StatusOr<std::optional<Connection>> Made(Connection made);
  bool MayBeTwo(const Connection& made) const;
  std::string TwoServers(const Connection& first, const Connection& second) const;
  Outcome Advance(Attempt& attempt, base::Instant limit, int wake_fd);
  Outcome ConnectToOne(Attempt& attempt, base::Instant limit, int wake_fd);
  Outcome Greet(Attempt& attempt, base::Instant limit, int wake_fd);
  absl::Status OpenNext(Attempt& attempt);
  absl::Status Open(Attempt& attempt, absl::Duration patience);
  absl::Status Unreachable(const Attempt& attempt, const std::string& why) const;
  absl::Status HungUp(const Attempt& attempt, const absl::Status& broken) const;
  absl::Status Restarted(const Attempt& attempt) const;
  std::string Hint() const;

  const Url url_;
  const std::string server_;
  const Handshake handshake_;
  const TransportFactory open_;
  const std::unique_ptr<Endpoint> endpoint_;
  const Whereabouts where_;
  bool trust_where_ = true;
  const bool compares_run_ids_;  // each node of a cluster serves only its own slots
  std::string run_id_;           // of the server that it connected to last
  std::optional<Attempt> attempt_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_CONNECTOR_H_
