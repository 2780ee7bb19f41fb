#include "src/cli/doctor/probes.h"

#include "absl/strings/match.h"
#include "src/cli/look/lock_keys.h"
#include "src/lock/key_set.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {

std::vector<ProbeWords> ProbesOf(const std::string& key, const std::string& channel,
                                 bool in_cluster) {
  const std::string queue = internal::AuxiliaryKey(key, QueueSuffix(internal::kinds::kSimple));
  const std::string readers = internal::AuxiliaryKey(key, internal::kinds::kReadersSuffix);
  std::vector<ProbeWords> probes = {
      {"ping", {"PING"}},
      {.command = "set", .words = {"SET", key, "0", "PX", "5000"}, .makes_key = true},
      {.command = "psetex", .words = {"PSETEX", key, "5000", "0"}, .makes_key = true},
      {"get", {"GET", key}},
      {"exists", {"EXISTS", queue, readers}},
      {"getrange", {"GETRANGE", key, "0", "0"}},
      {"setrange", {"SETRANGE", key, "0", ""}},
      {"pexpire", {"PEXPIRE", key, "5000", "LT"}},
      {"pexpireat", {"PEXPIREAT", key, "9000000000000", "LT"}},
      {"pttl", {"PTTL", key}},
      {"hget", {"HGET", key, "f"}},
      {"hset", {"HSET", key, "f", "v", "odd"}},
      {"hdel", {"HDEL", key, "f"}},
      {"hexists", {"HEXISTS", key, "f"}},
      {"hgetall", {"HGETALL", key}},
      {"hkeys", {"HKEYS", key}},
      {"hmget", {"HMGET", key, "f"}},
      {"hincrby", {"HINCRBY", key, "f", "nan"}},
      {.command = "hsetnx", .words = {"HSETNX", key, "f", "v"}, .needs_key = true},
      {"zadd", {"ZADD", key, "XX", "0", "m"}},
      {"zrem", {"ZREM", key, "m"}},
      {"zremrangebyrank", {"ZREMRANGEBYRANK", key, "0", "0"}},
      {"zcard", {"ZCARD", key}},
      {"zcount", {"ZCOUNT", key, "0", "0"}},
      {"zrange", {"ZRANGE", key, "0", "0"}},
      {"zrangebyscore", {"ZRANGEBYSCORE", key, "0", "0"}},
      {"zrank", {"ZRANK", key, "m"}},
      {"zscore", {"ZSCORE", key, "m"}},
      {"time", {"TIME"}},
      {"eval", {"EVAL", "return 0", "0"}},
      {"evalsha", {"EVALSHA", "0000000000000000000000000000000000000000", "0"}},
      {.command = "exists", .words = {"EXISTS", "redlatch:client:doctor"}, .optional = true},
      {.command = "mget", .words = {"MGET", key}, .optional = true},
      {"rename", {"RENAME", queue, queue}},
      {"unlink", {"UNLINK", queue}},
      {"del", {"DEL", key}},
  };
  if (!in_cluster) {
    probes.push_back({"publish", {"PUBLISH", channel, ""}});
    probes.push_back({"pubsub|numsub", {"PUBSUB", "NUMSUB", channel}});
    return probes;
  }
  probes.push_back({"spublish", {"SPUBLISH", channel, ""}});
  probes.push_back({"pubsub|shardnumsub", {"PUBSUB", "SHARDNUMSUB", channel}});
  probes.push_back({"cluster|slots", {"CLUSTER", "SLOTS"}});
  probes.push_back({"cluster|info", {"CLUSTER", "INFO"}});
  probes.push_back({.command = "asking", .words = {"ASKING"}});
  return probes;
}

CommandProbe::Outcome ProbeOutcome(const redis::Reply& reply) {
  using Outcome = CommandProbe::Outcome;
  if (!reply.is_error()) return Outcome::kAllowed;
  if (reply.text.starts_with("ERR unknown command") ||
      reply.text.starts_with("ERR unknown subcommand")) {
    return Outcome::kUnknownToServer;
  }
  if (redis::ClassifyError(reply.text) != redis::ErrorCode::kNoPermission) {
    return Outcome::kAllowed;
  }
  // What Redis 7.0 says of a channel, and what later servers and Valkey do.
  if (absl::StrContains(reply.text, "to access one of the channels") ||
      reply.text.ends_with(" channel")) {
    return Outcome::kNoChannel;
  }
  return absl::StrContains(reply.text, "to access ") ? Outcome::kNoKey : Outcome::kNoCommand;
}

}  // namespace redlatch::cli
