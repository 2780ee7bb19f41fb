#ifndef REDLATCH_SRC_REDIS_CONNECT_HANDSHAKE_H_
#define REDLATCH_SRC_REDIS_CONNECT_HANDSHAKE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// Checks whether a server, and this user there, have what locks need.

// Returns the commands that locks need, as ACL rules name them. `in_cluster`: for a node of a
// cluster.
std::vector<std::string> NeededCommands(bool in_cluster = false);

// A script that finds out in one round trip which of these this user may not run, and which the
// server does not know. It changes nothing. Lock names are not known yet, so a user with access to
// some keys only is not checked for keys.
Command NeedsProbe(bool in_cluster = false);

// The command by which a server deletes a key if it has a certain value.
enum class ConditionalDelete : uint8_t { kNone, kDelifeq, kDelex };

// What a server said about itself when the connection was made.
struct ServerInfo {
  std::string version;  // "7.0.15"; on Valkey, Valkey's own
  ConditionalDelete conditional_delete = ConditionalDelete::kNone;
  std::string run_id;          // changes when the server restarts
  std::string replication_id;  // changes with each promotion
  // How long it accepts writes after its last replica has stopped answering. Asked only if there is
  // a quarantine.
  absl::Duration longest_replica_lag = absl::Seconds(10);
  std::vector<std::string> warnings;  // each says what is wrong and how to fix it
};

// The script with which a connection begins: see Handshake.
struct FirstScript {
  Command command;
  std::string key;  // which it needs
};

// Judges the reply to it. kUnavailable: it may succeed later.
absl::Status CheckBegun(const FirstScript& begin, const Reply& reply, const Url& url);

// Returns the warning that the identity of `server` is not checked.
std::string NotVerified(std::string_view server);

// The first commands of every connection, sent in one write: AUTH, SELECT, CLIENT SETNAME, HELLO 3.
// A connection that runs scripts also sends a probe of what redlatch needs, at every reconnect,
// since another server may be there by then. INFO tells what HELLO does not; if the server or the
// user lacks it, there is a warning. A connection for questions accepts any server, and sends only
// AUTH, SELECT and PING.
//
// `begin`, if there is one, comes before all other scripts. It begins the quarantine or the restart
// delay of a server that was promoted or started. Until it was executed, such a server would take
// commands that were composed for another server, or an earlier run, for its own.
class Handshake {
 public:
  enum class Purpose { kCommands, kSubscriptions, kQuestions };
  Handshake(const Url& url, Purpose purpose, std::optional<FirstScript> begin = std::nullopt);

  const std::string& bytes() const { return bytes_; }
  size_t reply_count() const { return steps_.size(); }

  // OK if the server accepts this client and (unless the connection is for questions) can hold
  // locks. kUnavailable: a later attempt may succeed. kPermissionDenied, kFailedPrecondition: the
  // user must fix something first. `info` is filled for Purpose::kCommands.
  absl::Status Check(absl::Span<const Reply> replies, ServerInfo* info) const;
  // Checks by the reply to HELLO whether the server's version and mode allow locks.
  absl::Status CheckHello(const Reply& hello) const;

 private:
  class Checks;
  // Each judges the reply to one command.
  using Step = absl::Status (Checks::*)(const Reply& reply);
  void Add(Step step, const Command& command);

  const Url url_;
  const std::string server_;
  const std::optional<FirstScript> begin_;
  std::string bytes_;
  std::vector<Step> steps_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_HANDSHAKE_H_
