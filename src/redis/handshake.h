#ifndef REDLATCH_SRC_REDIS_HANDSHAKE_H_
#define REDLATCH_SRC_REDIS_HANDSHAKE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "src/redis/reply.h"
#include "src/redis/url.h"

namespace redlatch::redis {

// What a server said of itself when the connection was made.
struct ServerInfo {
  std::string version;                // "7.0.15"; Valkey's own, where it is Valkey
  std::string run_id;                 // changes when the server restarts
  std::vector<std::string> warnings;  // each says what is wrong and how to mend it
};

// The first commands of every connection, sent in one write: AUTH, SELECT, CLIENT SETNAME, and
// for a connection that runs scripts a probe of what redlatch needs. The probe is repeated with
// every reconnect, since another server may be there by then.
class Handshake {
 public:
  enum class Purpose { kCommands, kSubscriptions };
  Handshake(const Url& url, Purpose purpose);

  const std::string& bytes() const { return bytes_; }
  size_t reply_count() const { return steps_.size(); }

  // OK where the server accepts this client and is one that can hold locks. Otherwise
  // kUnavailable where a later attempt may succeed, kPermissionDenied or kFailedPrecondition where
  // somebody must mend something first. `info` is filled for Purpose::kCommands.
  absl::Status Check(absl::Span<const Reply> replies, ServerInfo* info) const;

 private:
  enum class Step { kAuth, kSelect, kSetName, kInfoServer, kInfoMemory, kInfoReplication, kScript };
  void Add(Step step, absl::Span<const std::string_view> args);
  absl::Status CheckStep(Step step, const Reply& reply, ServerInfo* info) const;
  absl::Status Refusal(const Reply& reply) const;
  absl::Status CheckServer(const Reply& reply, ServerInfo* info) const;
  absl::Status CheckMemory(const Reply& reply, ServerInfo* info) const;
  absl::Status CheckReplication(const Reply& reply) const;

  const Url url_;
  const std::string server_;
  std::string bytes_;
  std::vector<Step> steps_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_HANDSHAKE_H_
