#ifndef REDLATCH_SRC_REDIS_CONNECT_CONNECTOR_H_
#define REDLATCH_SRC_REDIS_CONNECT_CONNECTOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/redis/connect/dialogue.h"
#include "src/redis/connect/endpoint.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/transport/open.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

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
