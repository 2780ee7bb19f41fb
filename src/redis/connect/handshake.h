#ifndef REDLATCH_SRC_REDIS_CONNECT_HANDSHAKE_H_
#define REDLATCH_SRC_REDIS_CONNECT_HANDSHAKE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// What locks need of a server and of a user, and whether they have it.

// The commands that locks need, as an ACL rule has them; `in_cluster`: of a cluster's node.
std::vector<std::string> NeededCommands(bool in_cluster = false);

// Asks in one round trip, and changes nothing, what of that this user may not. The keys of locks
// are known when they are used: a user who may use some keys only is asked for the rest.
Command NeedsProbe(bool in_cluster = false);

// What the answer comes to; an error is that this user may not ask. kFailedPrecondition: the server
// lacks commands; kPermissionDenied: the user, empty for the default one, lacks permissions, all of
// which the message names, with the rule that grants them.
absl::Status CheckNeeds(const Reply& reply, std::string_view server, std::string_view user,
                        bool in_cluster = false);

// What a server said of itself when the connection was made.
struct ServerInfo {
  std::string version;         // "7.0.15"; Valkey's own, where it is Valkey
  std::string run_id;          // changes when the server restarts
  std::string replication_id;  // changes with each promotion
  // For how long it goes on accepting writes though no replica answers; asked where there is to be
  // a quarantine.
  absl::Duration longest_replica_lag = absl::Seconds(10);
  std::vector<std::string> warnings;  // each says what is wrong and how to mend it
};

// A warning: whoever answers for `server` is taken for it.
std::string NotVerified(std::string_view server);

// The first commands of every connection, sent in one write: AUTH, SELECT, CLIENT SETNAME, HELLO,
// and for a connection that runs scripts a probe of what redlatch needs. The probe is repeated with
// every reconnect, since another server may be there by then. INFO is for what HELLO doesn't tell:
// a server or a user without it gets a warning. A connection for questions takes any server, and
// says only who asks, and PING.
class Handshake {
 public:
  enum class Purpose { kCommands, kSubscriptions, kQuestions };
  Handshake(const Url& url, Purpose purpose);

  const std::string& bytes() const { return bytes_; }
  size_t reply_count() const { return steps_.size(); }

  // OK where the server accepts this client and, unless for questions, can hold locks. Otherwise
  // kUnavailable where a later attempt may succeed, kPermissionDenied or kFailedPrecondition where
  // somebody must mend something first. `info` is filled for Purpose::kCommands.
  absl::Status Check(absl::Span<const Reply> replies, ServerInfo* info) const;
  // Can a server with this answer to HELLO hold locks, by its version and mode?
  absl::Status CheckHello(const Reply& hello) const;

 private:
  enum class Step {
    kAuth,
    kSelect,
    kSetName,
    kHello,
    kInfoServer,
    kInfoMemory,
    kInfoReplication,
    kReplicaLag,
    kCommands,
    kScript,
    kPing
  };
  // What HELLO and INFO say of a server; empty where neither does.
  struct Nature {
    std::string_view version;
    bool valkey = false;
    std::string_view mode;
    std::string_view role;
    std::string_view primary_host;
    std::string_view primary_port;
  };
  void Add(Step step, const Command& command);
  absl::Status CheckStep(Step step, const Reply& reply, Nature& nature, ServerInfo* info) const;
  absl::Status Refusal(const Reply& reply) const;
  absl::Status ReadHello(const Reply& reply, Nature& nature) const;
  absl::Status ReadServer(const Reply& reply, Nature& nature, ServerInfo* info) const;
  absl::Status ReadReplication(const Reply& reply, Nature& nature, ServerInfo* info) const;
  absl::Status ReadReplicaLag(const Reply& reply, ServerInfo* info) const;
  absl::Status CheckMemory(const Reply& reply, ServerInfo* info) const;
  absl::Status CheckCommands(const Reply& reply) const;
  absl::Status CheckScript(const Reply& reply) const;
  absl::Status CheckPing(const Reply& reply) const;
  absl::Status CheckServer(const Nature& nature, ServerInfo* info) const;
  absl::Status CheckRole(const Nature& nature) const;

  const Url url_;
  const std::string server_;
  const Purpose purpose_;
  std::string bytes_;
  std::vector<Step> steps_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_HANDSHAKE_H_
