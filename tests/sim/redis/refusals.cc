// Why a server refuses a command, in the order in which Redis checks the reasons.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/redis/wire/codec.h"
#include "tests/sim/redis/command.h"
#include "tests/sim/redis/redis_server.h"

namespace redlatch::sim {
namespace {

constexpr char kOutOfMemory[] = "OOM command not allowed when used memory > 'maxmemory'.";
constexpr char kReadOnly[] = "READONLY You can't write against a read only replica.";
constexpr char kTryAgain[] = "TRYAGAIN Multiple keys request during rehashing of slot";
constexpr char kNoReplicas[] = "NOREPLICAS Not enough good replicas to write.";
constexpr char kCannotSave[] =
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to "
    "disk. Commands that may modify the data set are disabled, because this instance is configured "
    "to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error "
    "option). "
    "Please check the Redis logs for details about the RDB error.";

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view text) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [text](const std::string& pattern) { return MatchesGlob(text, pattern); });
}

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

bool RedisServer::LacksMemory() const {
  return conditions.out_of_memory || config_.find("maxmemory")->second != "0";
}

std::string RedisServer::RefusedByFault(const CommandSpec& command, bool in_script) {
  if (refusals_.empty()) return "";
  const std::string name = command.LowerName();
  for (Refusal& refusal : refusals_) {
    if (refusal.in_scripts != in_script || refusal.times <= 0 ||
        (!refusal.commands.empty() && !Contains(refusal.commands, name))) {
      continue;
    }
    --refusal.times;
    return refusal.error;
  }
  return "";
}

bool RedisServer::Permits(const CommandSpec& command, Words words, std::string_view& what) const {
  const bool all = permissions.denied_commands.empty() && permissions.key_patterns.size() == 1 &&
                   permissions.key_patterns[0] == "*" && permissions.channel_patterns.size() == 1 &&
                   permissions.channel_patterns[0] == "*";
  if (all) return true;
  const std::string name = command.LowerName();
  const std::string container = name.substr(0, name.find('|'));
  what = "command";
  if (!command.is(kNoAuth) && (Contains(permissions.denied_commands, name) ||
                               Contains(permissions.denied_commands, container))) {
    return false;
  }
  std::vector<size_t> positions;
  KeyPositions(command, words, positions);
  what = command.is(kChannels) ? "channel" : "key";
  const auto& patterns =
      command.is(kChannels) ? permissions.channel_patterns : permissions.key_patterns;
  // PUBSUB and UNSUBSCRIBE name channels without needing permission for them.
  const bool free =
      command.is(kChannels) && (name.starts_with("pubsub|") || name.find("unsub") != name.npos);
  return free || std::all_of(positions.begin(), positions.end(),
                             [&](size_t place) { return MatchesAny(patterns, words[place]); });
}

std::string RedisServer::Refused(const CommandSpec& command, Words words,
                                 const Connection& connection) {
  const std::string name = command.LowerName();
  if (!command.accepts(words.size())) {
    return absl::StrCat("ERR wrong number of arguments for '", name, "' command");
  }
  if (!options_.password.empty() && !connection.authenticated && !command.is(kNoAuth)) {
    return "NOAUTH Authentication required.";
  }
  std::string_view what;
  if (!Permits(command, words, what)) {
    if (what == "command") {
      return absl::StrCat("NOPERM this user has no permissions to run the '", name, "' command");
    }
    return absl::StrCat("NOPERM this user has no permissions to access one of the ",
                        std::string(what), "s used as arguments");
  }
  if (std::string error = RefusedByFault(command, false); !error.empty()) return error;
  if (options_.cluster) {
    std::string error = RefusedBySlot(command, words, connection.asking, false);
    if (!error.empty()) return error;
  }
  const bool writes = command.is(kWrite);
  if (command.is(kDenyOom) && LacksMemory()) return kOutOfMemory;
  if (conditions.cannot_save && !role_.is_replica() && (writes || command.name == "PING")) {
    return kCannotSave;
  }
  if (conditions.few_replicas && !role_.is_replica() && writes) return kNoReplicas;
  if (role_.is_replica() && writes) return kReadOnly;
  if (connection.subscribed() && connection.protocol == kResp2 && !command.is(kSubscribed)) {
    return absl::StrCat("ERR Can't execute '", name,
                        "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
                        "allowed in this context");
  }
  if (conditions.loading && !command.is(kLoading)) {
    return "LOADING Redis is loading the dataset in memory";
  }
  if (conditions.busy && !command.is(kWhileBusy)) {
    return "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
  }
  return "";
}

std::string RedisServer::RefusedInScript(const CommandSpec& command, Words words) {
  if (command.is(kNoScript)) return "ERR This Redis command is not allowed from script";
  if (!command.accepts(words.size())) {
    return "ERR Wrong number of args calling Redis command from script";
  }
  std::string_view what;
  if (!Permits(command, words, what)) {
    return absl::StrCat("ERR The user executing the script can't ",
                        what == "command" ? "run this command or subcommand"
                        : what == "key"
                            ? "access at least one of the keys mentioned in the command arguments"
                            : "publish to the channel mentioned in the command");
  }
  if (!refusals_.empty()) {
    if (std::string error = RefusedByFault(command, true); !error.empty()) return error;
  }
  if (command.is(kWrite) && !script_->wrote) {
    if (role_.is_replica()) return kReadOnly;
    if (conditions.cannot_save) return kCannotSave;
    if (conditions.few_replicas) return kNoReplicas;
    // A script that has written is not stopped halfway.
    if (script_->out_of_memory && command.is(kDenyOom)) return kOutOfMemory;
  }
  if (!options_.cluster) return "";
  return RefusedBySlot(command, words, script_->connection->asking, true);
}

// The redirection that a node replies for this slot, if it does not serve it.
std::string RedisServer::Redirection(int slot, bool asking, bool channels, size_t missing,
                                     size_t existing, size_t keys) {
  const std::string* const owner = cluster_.OwnerOf(slot);
  if (owner == nullptr) return "CLUSTERDOWN Hash slot not served";
  const auto to = [&](const char* word, const std::string& id) {
    const ClusterNode* const node = cluster_.Find(id);
    return absl::StrCat(word, " ", slot, " ", node->host, ":", node->port);
  };
  const ClusterNode* const me = cluster_.Find(cluster_.me);
  const auto going = cluster_.migrating.find(slot);
  if (going != cluster_.migrating.end() && missing > 0) {
    return existing > 0 ? kTryAgain : to("ASK", going->second);
  }
  if (asking && cluster_.importing.contains(slot)) {
    return keys > 1 && missing > 0 ? kTryAgain : "";
  }
  const bool own = *owner == cluster_.me || (channels && *owner == me->primary_id);
  return own ? "" : to("MOVED", *owner);
}

std::string RedisServer::RefusedBySlot(const CommandSpec& command, Words words, bool asking,
                                       bool in_script) {
  std::vector<size_t> positions;
  const bool channels = command.is(kChannels);
  if (!channels || command.is(kSharded)) KeyPositions(command, words, positions);
  if (positions.empty()) return "";
  const auto said = [in_script](const char* in_scripts, const char* otherwise) {
    return std::string(in_script ? in_scripts : otherwise);
  };
  if (cluster_.down && !channels) {
    return said("ERR Script attempted to execute a command while the cluster is down",
                "CLUSTERDOWN The cluster is down");
  }
  const int slot = redis::SlotOf(words[positions[0]]);
  size_t missing = 0;
  const bool open = cluster_.migrating.contains(slot) || cluster_.importing.contains(slot);
  for (const size_t place : positions) {
    if (redis::SlotOf(words[place]) != slot) {
      return said("ERR Script attempted to access keys that do not hash to the same slot",
                  "CROSSSLOT Keys in request don't hash to the same slot");
    }
    if (open && !channels) missing += keys_.Find(words[place]) == nullptr;
  }
  std::string there =
      Redirection(slot, asking, channels, missing, positions.size() - missing, positions.size());
  if (there.empty() || !in_script) return there;
  return "ERR Script attempted to access a non local key in a cluster node";
}

}  // namespace redlatch::sim
