#include "src/redis/handshake.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/codec.h"
#include "src/redis/errors.h"

namespace redlatch::redis {
namespace {

constexpr int kOldestMajor = 7;
// EVALSHA of it answers NOSCRIPT to who may run it, and NOPERM to who may not.
constexpr std::string_view kNoSuchScript = "0000000000000000000000000000000000000000";

// The value of `field` in the answer to INFO, or an empty view.
std::string_view InfoField(std::string_view info, std::string_view field) {
  size_t at = 0;
  while (at < info.size()) {
    const size_t end = std::min(info.find("\r\n", at), info.size());
    const std::string_view line = info.substr(at, end - at);
    if (line.size() > field.size() && line.substr(0, field.size()) == field &&
        line[field.size()] == ':') {
      return line.substr(field.size() + 1);
    }
    at = end + 2;
  }
  return {};
}

bool MayNotAsk(const Reply& reply) {
  return reply.is_error() && ClassifyError(reply.text) == ErrorCode::kNoPermission;
}

// A server that does not know a command repeats its arguments, and AUTH's are secret.
std::string_view WithoutArguments(std::string_view error) {
  return error.substr(0, error.find(", with args"));
}

}  // namespace

Handshake::Handshake(const Url& url, Purpose purpose) : url_(url), server_(url.DebugString()) {
  if (!url.user.empty() || !url.password.empty()) {
    if (url.user.empty()) {
      Add(Step::kAuth, {"AUTH", url.password});
    } else {
      Add(Step::kAuth, {"AUTH", url.user, url.password});
    }
  }
  if (url.db != 0) Add(Step::kSelect, {"SELECT", std::to_string(url.db)});
  if (!url.client_name.empty()) Add(Step::kSetName, {"CLIENT", "SETNAME", url.client_name});
  // A connection is probed whole, and a subscriber's must at least answer.
  Add(Step::kInfoServer, {"INFO", "server"});
  if (purpose == Purpose::kSubscriptions) return;
  Add(Step::kInfoMemory, {"INFO", "memory"});
  Add(Step::kInfoReplication, {"INFO", "replication"});
  Add(Step::kScript, {"EVAL", "return 1", "0"});
  Add(Step::kScript, {"EVALSHA", kNoSuchScript, "0"});
}

void Handshake::Add(Step step, absl::Span<const std::string_view> args) {
  const Command command(args);
  bytes_.append(command.bytes());
  steps_.push_back(step);
}

absl::Status Handshake::Check(absl::Span<const Reply> replies, ServerInfo* info) const {
  *info = ServerInfo();
  for (size_t i = 0; i < steps_.size(); ++i) {
    absl::Status status = CheckStep(steps_[i], replies[i], info);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Handshake::CheckStep(Step step, const Reply& reply, ServerInfo* info) const {
  const ErrorCode error = reply.is_error() ? ClassifyError(reply.text) : ErrorCode::kOther;
  switch (step) {
    case Step::kAuth:
      if (!reply.is_error()) return absl::OkStatus();
      if (IsTransient(error)) return ErrorStatus(reply.text, server_);
      return absl::PermissionDeniedError(
          ErrorStatus(WithoutArguments(reply.text), server_).message());
    case Step::kSelect:
      return reply.is_error() ? Refusal(reply) : absl::OkStatus();
    case Step::kSetName:
      if (reply.is_error() && IsTransient(error)) return ErrorStatus(reply.text, server_);
      if (reply.is_error()) {
        info->warnings.push_back(absl::StrCat(server_, " does not take a client name: ", reply.text,
                                              " (it is not needed)"));
      }
      return absl::OkStatus();
    case Step::kInfoServer:
      return CheckServer(reply, info);
    case Step::kInfoMemory:
      return CheckMemory(reply, info);
    case Step::kInfoReplication:
      return CheckReplication(reply);
    case Step::kScript:
      if (!reply.is_error() || error == ErrorCode::kNoScript) return absl::OkStatus();
      if (error == ErrorCode::kNoPermission) {
        return absl::PermissionDeniedError(
            absl::StrCat(server_, " lets this user run no scripts: ", reply.text,
                         " (grant it: ACL SETUSER <user> +eval +evalsha +script)"));
      }
      return Refusal(reply);
  }
  return absl::OkStatus();
}

absl::Status Handshake::Refusal(const Reply& reply) const {
  absl::Status status = ErrorStatus(reply.text, server_);
  if (absl::IsUnavailable(status) || absl::IsPermissionDenied(status)) return status;
  return absl::FailedPreconditionError(status.message());
}

absl::Status Handshake::CheckServer(const Reply& reply, ServerInfo* info) const {
  if (MayNotAsk(reply)) {
    info->warnings.push_back(
        absl::StrCat(server_,
                     " lets this user not run INFO: its version, memory policy and role "
                     "were not checked (grant it: ACL SETUSER <user> +info)"));
    return absl::OkStatus();
  }
  if (reply.is_error()) return Refusal(reply);
  const std::string_view valkey = InfoField(reply.text, "valkey_version");
  const std::string_view version = valkey.empty() ? InfoField(reply.text, "redis_version") : valkey;
  info->version = std::string(version);
  info->run_id = std::string(InfoField(reply.text, "run_id"));
  if (version.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(server_,
                     " does not tell its version; redlatch needs Redis 7.0 or later, or "
                     "Valkey"));
  }
  if (valkey.empty() && std::atoi(info->version.c_str()) < kOldestMajor) {
    return absl::FailedPreconditionError(absl::StrCat(server_, " is Redis ", info->version,
                                                      "; redlatch needs 7.0 or later, or Valkey"));
  }
  if (InfoField(reply.text, "redis_mode") == "cluster") {
    return absl::FailedPreconditionError(
        absl::StrCat(server_,
                     " is a node of a cluster; clusters are not supported yet (use a "
                     "server that runs alone)"));
  }
  return absl::OkStatus();
}

absl::Status Handshake::CheckMemory(const Reply& reply, ServerInfo* info) const {
  if (MayNotAsk(reply)) return absl::OkStatus();
  if (reply.is_error()) return Refusal(reply);
  const std::string_view limit = InfoField(reply.text, "maxmemory");
  const std::string_view policy = InfoField(reply.text, "maxmemory_policy");
  if (policy.empty() || policy == "noeviction") return absl::OkStatus();
  const std::string what =
      absl::StrCat(server_, " has maxmemory-policy ", std::string(policy),
                   ": it throws held locks away when its memory is full (CONFIG SET "
                   "maxmemory-policy noeviction");
  if (limit == "0" || url_.allow_eviction) {
    info->warnings.push_back(absl::StrCat(what, limit == "0" ? "; it has no limit now" : "", ")"));
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(what, ", or accept the risk with ?eviction=allow in the URL)"));
}

absl::Status Handshake::CheckReplication(const Reply& reply) const {
  if (MayNotAsk(reply)) return absl::OkStatus();
  if (reply.is_error()) return Refusal(reply);
  if (InfoField(reply.text, "role") != "slave") return absl::OkStatus();
  // Unavailable, not refused: a failover may be under way, and this the primary soon.
  return absl::UnavailableError(absl::StrCat(
      server_, " is a replica of ", std::string(InfoField(reply.text, "master_host")), ":",
      std::string(InfoField(reply.text, "master_port")), " (connect to the primary)"));
}

}  // namespace redlatch::redis
