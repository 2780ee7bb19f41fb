#ifndef REDLATCH_SRC_REDIS_CONNECT_CONNECTOR_H_
#define REDLATCH_SRC_REDIS_CONNECT_CONNECTOR_H_

#include <cstddef>
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
#include "src/redis/wire/reply_parser.h"

namespace redlatch::redis {

// Decides when to connect again. The first attempt after a loss is made at once. Those that follow
// are delayed, longer each time, until a connection was useful: it brought many replies or
// messages, or some and lived for a while. So a server that accepts, answers and hangs up is not
// flooded with attempts.
class ReconnectBackoff {
 public:
  ReconnectBackoff(absl::Duration first_backoff, absl::Duration longest_backoff)
      : backoff_(first_backoff, longest_backoff) {}

  base::Instant next_attempt() const { return next_attempt_; }

  void Failed() { next_attempt_ = base::Now() + backoff_.Next(); }
  void Made() {
    made_ = base::Now();
    received_ = 0;
  }
  // `count` replies or messages came.
  void Received(size_t count) { received_ += count; }
  void Lost() {
    const base::Instant now = base::Now();
    if (received_ >= kMuch || (received_ > 0 && made_ + kAWhile <= now)) {
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
  size_t received_ = 0;
  bool held_back_ = false;  // the next attempt after a loss
};

// A connected transport, with the bytes still to be written and the replies that came. One thread
// at a time.
struct Dialogue {
  std::unique_ptr<Transport> transport;
  std::string unwritten;
  ReplyParser parser;
  std::vector<Reply> replies;
  Interest read_wants = Interest::kRead;
  Interest write_wants = Interest::kNone;  // of the rest, when Write() was last called
  Interest wants() const { return read_wants | write_wants; }

  // Writes everything, and reads until there are `count` replies. False: `deadline` came first; the
  // next call continues. After an error the connection is unusable. Its message is the bare reason;
  // its code is kFailedPrecondition if the user must fix something first, otherwise kUnavailable.
  // Whole replies that came before it are in `replies`.
  absl::StatusOr<bool> GoOn(size_t count, base::Instant deadline);

 private:
  void Write();
  absl::Status Read();
};

// A connection that the handshake has accepted, ready for commands.
struct Accepted {
  Dialogue dialogue;
  ServerInfo info;
  Target target;
};

// The server of a connection, and since when it has been connected.
struct Peer {
  Target target;
  base::Instant since;
};

// Makes connections: finds the addresses, connects to one, does the handshake. If an address cannot
// be reached, or its server cannot serve now (a replica, for example), the next one is tried. The
// calling thread does the work. If its deadline comes first, the next call continues the attempt,
// so several short calls together can connect. One attempt takes no longer than the URL's
// connect_timeout. Not thread-safe.
//
// A connection for commands that reaches another server, or a restarted one, is made twice, the
// second time to another address if the host has several. If two primaries answer, as behind a load
// balancer, each has locks of its own, and the server is refused: with kFailedPrecondition, or with
// kUnavailable if there was only one at an earlier connection. It is accepted if the second
// connection cannot be made soon, or if the user may not run INFO.
class Connector {
 public:
  // Default `open`: OpenTransport(). Default `endpoint`: the URL's. `begin`: see Handshake.
  Connector(const Url& url, Handshake::Purpose purpose, TransportFactory open = nullptr,
            Endpoint endpoint = nullptr, std::optional<FirstScript> begin = std::nullopt);

  // Returns a connection, or nothing if `deadline` came first. An error ends the attempt;
  // kUnavailable: another attempt may succeed. The next call begins a new one.
  absl::StatusOr<std::optional<Accepted>> Step(base::Instant deadline);

  // The same without blocking. If it returns nothing, call it again when `awaited` has come.
  absl::StatusOr<std::optional<Accepted>> Poll(Transport::Polled* awaited);

  // Drops the attempt in progress and its socket.
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
    std::vector<Target> targets;
    size_t next_target = 0;
    base::Instant target_deadline;
    absl::Duration socket_timeout;  // for the present socket to be connected
    base::Instant socket_deadline;
    Dialogue dialogue;
    bool connected = false;
    absl::Status unreachable;  // why the last target could not be reached
    absl::Status refusal;      // by the last server that was reached, or why no targets are known
    std::optional<Accepted> made;  // the first of two connections
    absl::Status two;  // the error if the two servers differ and the first is still there

    const Target& target() const { return targets[next_target - 1]; }
    base::Instant AwaitedUntil() const;
    void BeginSecond(Accepted first);
    void AskFirst(absl::Status if_there);
  };
  // True: the replies to the handshake are in. False: not yet.
  using Outcome = absl::StatusOr<bool>;

  // Goes on as far as it can without blocking, except that it looks for the addresses until
  // `limit`.
  absl::StatusOr<std::optional<Accepted>> Proceed(base::Instant limit);
  absl::StatusOr<std::optional<Accepted>> Failed(absl::Status why);
  absl::StatusOr<std::optional<Accepted>> Made(Accepted made);
  Outcome Advance(Attempt& attempt, base::Instant limit);
  Outcome ConnectToOne(Attempt& attempt);
  Outcome Greet(Attempt& attempt);
  absl::Status Open(Attempt& attempt, absl::Duration socket_timeout);
  absl::Status TwoServers(const Accepted& first, const Accepted& second) const;
  absl::Status TimedOut(const Attempt& attempt) const;
  absl::Status Unreachable(const Attempt& attempt, const std::string& why) const;
  absl::Status HungUp(const Attempt& attempt, const absl::Status& broken) const;
  std::string Hint() const;

  const Url url_;
  const std::string server_;
  const Handshake handshake_;
  const TransportFactory open_;
  const Endpoint endpoint_;
  const bool compares_run_ids_;  // each node of a cluster serves only its own slots
  std::string run_id_;           // of the last server that it connected to
  std::optional<Attempt> attempt_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_CONNECTOR_H_
