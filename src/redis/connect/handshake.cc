#include "src/redis/connect/handshake.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/utf8.h"
#include "src/redis/transport/tls.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

namespace {

// Each has all its arguments: a server may crash if it is asked about fewer (Redis 7.0, with EVAL).
// @ is a key, & a channel.
constexpr absl::string_view kNeeds =
    "eval x 0;evalsha x 0;ping;time;"
    "get @;getrange @ 0 0;set @ x;setrange @ 0 x;psetex @ 1 x;del @;unlink @;rename @ @;exists @;"
    "pexpire @ 1;pexpireat @ 1;pttl @;hget @ f;hset @ f v;hsetnx @ f v;hdel @ f;hexists @ f;"
    "hgetall @;hkeys @;hmget @ f;hincrby @ f 1;zadd @ 1 m;zrem @ m;zremrangebyrank @ 0 0;zcard @;"
    "zcount @ 0 0;zrange @ 0 0;zrangebyscore @ 0 0;zrank @ m;zscore @ m";
constexpr absl::string_view kMessages = "publish & x;subscribe &;unsubscribe &;pubsub|numsub &;";
constexpr absl::string_view kShardedMessages =
    "spublish & x;ssubscribe &;sunsubscribe &;pubsub|shardnumsub "
    "&;asking;cluster|slots;cluster|info;";
constexpr std::string_view kKey = "redlatch:probe";
constexpr absl::string_view kChannels = "redlatch:*";

// First finds the commands that the server does not know, because rename-command has taken them
// away. None is executed: each call has an argument too few or too many. Then finds what this user
// may not do, by trying it: only the server's refusal tells a denied command from a denied key.
constexpr std::string_view kProbe = R"(
local unknown, denied = {}, {}
local shard = ARGV[4]
for _, call in ipairs({{'TIME', ''}, {shard .. 'PUBLISH'}, {'PUBSUB'}, {shard .. 'SUBSCRIBE'}}) do
  local answer = redis.pcall(unpack(call))
  if answer.err and string.find(answer.err, 'nknown') then unknown[#unknown + 1] = call[1] end
end
if not redis.acl_check_cmd then return {unknown, denied} end
local key_denied, channel_denied = false, false
for line in string.gmatch(ARGV[1], '[^;]+') do
  local name, words, keyed = nil, {}, false
  for word in string.gmatch(line, '%S+') do
    if not name then
      name = word
      for part in string.gmatch(word, '[^|]+') do words[#words + 1] = part end
    else
      keyed = keyed or word == '@'
      words[#words + 1] = word == '@' and ARGV[2] or word == '&' and ARGV[3] or word
    end
  end
  if not (keyed and key_denied) and not (string.find(name, '^s?subscribe') and channel_denied) then
    local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
    if known and not allowed then
      local answer = redis.pcall(unpack(words))
      local said = type(answer) == 'table' and answer.err or ''
      if string.find(said, 'to run ') or string.find(said, 'run this command') then
        denied[#denied + 1] = '+' .. name
      elseif string.find(said, 'channel') then
        channel_denied = true
        denied[#denied + 1] = '&' .. ARGV[3]
      elseif string.find(said, 'access') then
        key_denied = true
      else
        denied[#denied + 1] = '+' .. name
      end
    end
  end
end
return {unknown, denied})";

std::string Needs(bool in_cluster) {
  return absl::StrCat(in_cluster ? kShardedMessages : kMessages, kNeeds);
}

absl::Status Lacks(const Url& url, const std::string& rules) {
  const std::string user = url.user.empty() ? "default" : url.user;
  return absl::PermissionDeniedError(absl::StrCat(url.DebugString(), " does not permit user ", user,
                                                  " all that locks need (grant it: ACL SETUSER ",
                                                  user, " ", rules, ")"));
}

}  // namespace

std::vector<std::string> NeededCommands(bool in_cluster) {
  std::vector<std::string> names;
  const std::string needs = Needs(in_cluster);
  for (const absl::string_view need : absl::StrSplit(needs, ';')) {
    names.emplace_back(need.substr(0, need.find(' ')));
  }
  return names;
}

Command NeedsProbe(bool in_cluster) {
  return {
      "EVAL", kProbe, "0", Needs(in_cluster), kKey, std::string(kChannels), in_cluster ? "S" : ""};
}

namespace {

// Valkey has DELIFEQ from 9.0 on, and Redis DELEX from 8.4 on.
ConditionalDelete ConditionalDeleteOf(std::string_view version, bool valkey) {
  int major = 0;
  int minor = 0;
  const std::string text(version);
  if (std::sscanf(text.c_str(), "%d.%d", &major, &minor) < 1) return ConditionalDelete::kNone;
  if (valkey) return major >= 9 ? ConditionalDelete::kDelifeq : ConditionalDelete::kNone;
  return major > 8 || (major == 8 && minor >= 4) ? ConditionalDelete::kDelex
                                                 : ConditionalDelete::kNone;
}

constexpr int kOldestMajor = 7;
// EVALSHA of this replies NOSCRIPT to a user who may run scripts, and NOPERM to any other.
constexpr std::string_view kNoSuchScript = "0000000000000000000000000000000000000000";

constexpr absl::string_view kImitation =
    "; redlatch needs Redis 7.0 or later, or Valkey, itself: an imitation such as fakeredis or "
    "miniredis does not run its scripts as they do";

// A server's text about itself, which may hold anything, shortened for a message.
std::string Short(std::string_view text) { return std::string(text.substr(0, 200)); }

// True if the server does not know the command, or this user may not run it.
bool CannotAsk(const Reply& reply) {
  if (!reply.is_error()) return false;
  const ErrorCode error = ClassifyError(reply.text);
  return error == ErrorCode::kNoPermission || error == ErrorCode::kUnknownCommand;
}

}  // namespace

std::string NotVerified(std::string_view server) {
  return absl::StrCat(std::string(server),
                      " is not verified (tls=insecure): an attacker in between can read and change "
                      "everything, passwords too (name its authority instead: "
                      "ca=/path/to/ca.pem)");
}

// If other clients ask for another length, each acquire is refused, too, and names both.
absl::Status CheckBegun(const FirstScript& begin, const Reply& reply, const Url& url) {
  if (!reply.is_error() || reply.text.starts_with("REFUSED ")) return absl::OkStatus();
  absl::Status status = ErrorStatus(reply.text, url.DebugString());
  if (DeniesKey(reply.text)) return Lacks(url, "~" + begin.key);
  if (absl::IsPermissionDenied(status) || absl::IsFailedPrecondition(status)) return status;
  return absl::UnavailableError(absl::StrCat(
      std::string(status.message()),
      "; it must begin its quarantine, or its restart delay, before it gets any other command"));
}

// Judges one server by its replies. A fact is empty if the server has not said it.
class Handshake::Checks {
 public:
  Checks(const Handshake& handshake, ServerInfo* info)
      : url_(handshake.url_), server_(handshake.server_), begin_(handshake.begin_), info_(info) {}

  absl::Status Auth(const Reply& reply) {
    if (!reply.is_error()) return absl::OkStatus();
    if (IsTransient(ClassifyError(reply.text))) return ErrorStatus(reply.text, server_);
    return absl::PermissionDeniedError(
        ErrorStatus(WithoutArguments(reply.text), server_).message());
  }

  absl::Status Select(const Reply& reply) {
    return reply.is_error() ? Refusal(reply) : absl::OkStatus();
  }

  absl::Status SetName(const Reply& reply) {
    if (!reply.is_error()) return absl::OkStatus();
    if (IsTransient(ClassifyError(reply.text))) return ErrorStatus(reply.text, server_);
    Warn(absl::StrCat("does not accept a client name: ", Short(reply.text), " (it is not needed)"));
    return absl::OkStatus();
  }

  absl::Status Hello(const Reply& reply) {
    if (reply.is_error()) {
      absl::Status status = ErrorStatus(reply.text, server_);
      const ErrorCode error = ClassifyError(reply.text);
      if (error == ErrorCode::kNoPermission) return Lacks(url_, "+hello");
      const bool tells = absl::IsUnavailable(status) || absl::IsPermissionDenied(status);
      if (tells && error != ErrorCode::kUnknownCommand) return status;
      return Unfit(absl::StrCat(
          "does not speak RESP 3: it answers HELLO 3 with \"", Short(WithoutArguments(reply.text)),
          "\" (redlatch needs Redis 7.0 or later, or Valkey, without a proxy that speaks RESP 2 "
          "only; if a rename-command line took HELLO away, remove it)"));
    }
    version_ = Short(ValueOf(reply, "version"));
    valkey_ = ValueOf(reply, "server") == "valkey";
    mode_ = Short(ValueOf(reply, "mode"));
    role_ = Short(ValueOf(reply, "role"));
    return absl::OkStatus();
  }

  absl::Status Server(const Reply& reply) {
    if (CannotAsk(reply)) {
      Warn(ClassifyError(reply.text) == ErrorCode::kUnknownCommand
               ? "does not know INFO: its memory policy was not checked (see that it is noeviction)"
               : "does not let this user run INFO: its memory policy was not checked (grant it: "
                 "ACL SETUSER <user> +info)");
      return VersionAndMode();
    }
    if (reply.is_error()) return Refusal(reply);
    const std::string_view valkey = InfoField(reply.text, "valkey_version");
    valkey_ = !valkey.empty();
    version_ = Short(valkey_ ? valkey : InfoField(reply.text, "redis_version"));
    mode_ = Short(InfoField(reply.text, "redis_mode"));
    if (mode_.empty()) mode_ = Short(InfoField(reply.text, "server_mode"));  // Valkey's
    info_->run_id = std::string(InfoField(reply.text, "run_id"));
    if (!version_.empty()) return VersionAndMode();
    return Unfit(absl::StrCat("does not tell its version", kImitation));
  }

  absl::Status Replication(const Reply& reply) {
    const bool quarantine = url_.quarantine > absl::ZeroDuration();
    if (CannotAsk(reply) && quarantine) {
      return absl::PermissionDeniedError(
          absl::StrCat(server_,
                       " does not let this user run INFO, by which a promotion is known: "
                       "quarantine= needs it (grant it: ACL SETUSER <user> +info; or use "
                       "LockOptions::acks instead)"));
    }
    if (CannotAsk(reply)) return Role();
    if (reply.is_error()) return Refusal(reply);
    info_->replication_id = std::string(InfoField(reply.text, "master_replid"));
    if (info_->replication_id.empty() && quarantine) {
      return Unfit(
          "does not tell its master_replid, by which a promotion is known: quarantine= needs it "
          "(use LockOptions::acks instead)");
    }
    role_ = Short(InfoField(reply.text, "role"));
    const std::string host = Short(InfoField(reply.text, "master_host"));
    if (!host.empty()) {
      primary_ = absl::StrCat(" of ", host, ":", Short(InfoField(reply.text, "master_port")));
    }
    return Role();
  }

  // If this user may not read the setting, its default is assumed.
  absl::Status ReplicaLag(const Reply& reply) {
    absl::Duration& longest = info_->longest_replica_lag;
    if (reply.elements.size() == 2) {
      longest = absl::Seconds(std::atoi(reply.elements[1].text.c_str()));
    } else {
      Warn(absl::StrCat(
          "does not let this user read its min-replicas-max-lag, which quarantine= needs: it is "
          "taken for ",
          absl::FormatDuration(longest),
          " (grant it: ACL SETUSER <user> +config|get; or make sure that it is no more)"));
    }
    const absl::Duration alone = longest + absl::Seconds(1);
    if (alone < url_.quarantine) return absl::OkStatus();
    return Unfit(absl::StrCat(
        "may grant for ", absl::FormatDuration(alone),
        " after it was cut off (min-replicas-max-lag): quarantine= must be longer than that and "
        "the longest lease together"));
  }

  absl::Status Memory(const Reply& reply) {
    if (CannotAsk(reply)) return absl::OkStatus();
    if (reply.is_error()) return Refusal(reply);
    const bool unlimited = InfoField(reply.text, "maxmemory") == "0";
    const std::string policy = Short(InfoField(reply.text, "maxmemory_policy"));
    if (policy.empty() || policy == "noeviction") return absl::OkStatus();
    const std::string what = absl::StrCat(
        "has maxmemory-policy ", policy,
        ": it evicts held locks when its memory is full (CONFIG SET maxmemory-policy noeviction");
    if (unlimited || url_.allow_eviction) {
      Warn(absl::StrCat(what, unlimited ? "; at present there is no memory limit" : "", ")"));
      return absl::OkStatus();
    }
    return Unfit(absl::StrCat(what, ", or accept the risk with ?eviction=allow in the URL)"));
  }

  absl::Status Commands(const Reply& reply) {
    // The probe could not check the channels. A user with all channels cannot be given some.
    const std::string and_channels =
        absl::StrCat("; and &", kChannels, " unless it has all channels");
    if (reply.is_error()) {
      // NOSCRIPT, for example, makes no sense here: the probe was sent as text.
      if (ClassifyError(reply.text) != ErrorCode::kNoPermission) return Refusal(reply);
      const std::string all = absl::StrJoin(NeededCommands(url_.in_cluster), " +");
      return Lacks(url_, absl::StrCat("+", all, and_channels));
    }
    if (reply.elements.size() != 2) return absl::OkStatus();  // its Lua is not Redis'
    const auto text = [](std::string* all, const Reply& each) { all->append(each.text); };
    const std::vector<Reply>& unknown = reply.elements[0].elements;
    const std::vector<Reply>& denied = reply.elements[1].elements;
    if (!unknown.empty()) {
      return Unfit(absl::StrCat("does not know ", absl::StrJoin(unknown, ", ", text),
                                ", which locks need under that name (remove its rename-command "
                                "line from the server's configuration)"));
    }
    if (denied.empty()) return absl::OkStatus();
    const bool channels_unknown = std::any_of(denied.begin(), denied.end(), [](const Reply& rule) {
      return rule.text == "+publish" || rule.text == "+spublish";
    });
    return Lacks(
        url_, absl::StrCat(absl::StrJoin(denied, " ", text), channels_unknown ? and_channels : ""));
  }

  absl::Status Script(const Reply& reply) {
    const ErrorCode error = reply.is_error() ? ClassifyError(reply.text) : ErrorCode::kNoScript;
    if (error == ErrorCode::kNoScript) return absl::OkStatus();
    if (error != ErrorCode::kNoPermission) return Refusal(reply);
    return absl::PermissionDeniedError(
        absl::StrCat(server_, " does not let this user run scripts: ", Short(reply.text),
                     " (grant it: ACL SETUSER <user> +eval +evalsha +script)"));
  }

  // A user who may not run PING was still accepted. So was one at a server that cannot write; its
  // later replies say why.
  absl::Status Ping(const Reply& reply) {
    const bool let_in = !reply.is_error() || reply.text.starts_with("MISCONF ") ||
                        ClassifyError(reply.text) == ErrorCode::kNoPermission;
    return let_in ? absl::OkStatus() : Refusal(reply);
  }

  absl::Status Begin(const Reply& reply) { return CheckBegun(*begin_, reply, url_); }

  absl::Status VersionAndMode() {
    info_->version = version_;
    info_->conditional_delete = ConditionalDeleteOf(version_, valkey_);
    if (!version_.empty() && !valkey_ && std::atoi(version_.c_str()) < kOldestMajor) {
      return Unfit(absl::StrCat("is Redis ", version_, "; redlatch needs 7.0 or later, or Valkey"));
    }
    if (mode_ == "sentinel") {
      return Unfit("is a sentinel (begin the URL with redis-sentinel://)");
    }
    if (mode_ == "cluster" && !url_.in_cluster) {
      return Unfit("is a node of a cluster (begin the URL with redis-cluster://)");
    }
    if (url_.in_cluster && !mode_.empty() && mode_ != "cluster") {
      return Unfit("is no node of a cluster (begin the URL with redis://)");
    }
    return absl::OkStatus();
  }

 private:
  void Warn(const std::string& what) {
    info_->warnings.push_back(absl::StrCat(server_, " ", what));
  }

  absl::Status Unfit(const std::string& what) const {
    return absl::FailedPreconditionError(absl::StrCat(server_, " ", what));
  }

  absl::Status Refusal(const Reply& reply) const {
    absl::Status status = ErrorStatus(reply.text, server_);
    if (absl::IsUnavailable(status) || absl::IsPermissionDenied(status)) return status;
    const bool strange = absl::IsInternal(status) || absl::IsNotFound(status);
    return absl::FailedPreconditionError(
        absl::StrCat(std::string(status.message()), strange ? kImitation : ""));
  }

  absl::Status Role() const {
    // "slave" in INFO, "replica" in HELLO.
    if (role_ != "replica" && role_ != "slave") return absl::OkStatus();
    // kUnavailable, since a failover may be in progress, and this server may soon be the primary.
    return absl::UnavailableError(
        absl::StrCat(server_, " is a replica", primary_, " (connect to the primary)"));
  }

  const Url& url_;
  const std::string& server_;
  const std::optional<FirstScript>& begin_;
  ServerInfo* const info_;
  std::string version_;
  bool valkey_ = false;
  std::string mode_;
  std::string role_;
  std::string primary_;  // of a replica: " of host:port"
};

Handshake::Handshake(const Url& url, Purpose purpose, std::optional<FirstScript> begin)
    : url_(url), server_(url.DebugString()), begin_(std::move(begin)) {
  if (!url.user.empty() || !url.password.empty()) {
    Add(&Checks::Auth, url.user.empty() ? Command({"AUTH", url.password})
                                        : Command({"AUTH", url.user, url.password}));
  }
  if (url.db != 0) Add(&Checks::Select, {"SELECT", std::to_string(url.db)});
  if (purpose == Purpose::kQuestions) {
    Add(&Checks::Ping, {"PING"});
    return;
  }
  if (!url.client_name.empty()) Add(&Checks::SetName, {"CLIENT", "SETNAME", url.client_name});
  Add(&Checks::Hello, {"HELLO", "3"});
  if (purpose == Purpose::kSubscriptions) return;
  Add(&Checks::Server, {"INFO", "server"});
  Add(&Checks::Replication, {"INFO", "replication"});
  if (url.quarantine > absl::ZeroDuration()) {
    Add(&Checks::ReplicaLag, {"CONFIG", "GET", "min-replicas-max-lag"});
  }
  Add(&Checks::Memory, {"INFO", "memory"});
  Add(&Checks::Commands, NeedsProbe(url.in_cluster));
  Add(&Checks::Script, {"EVALSHA", kNoSuchScript, "0"});
  if (begin_) Add(&Checks::Begin, begin_->command);
}

void Handshake::Add(Step step, const Command& command) {
  bytes_.append(command.bytes());
  steps_.push_back(step);
}

absl::Status Handshake::Check(absl::Span<const Reply> replies, ServerInfo* info) const {
  *info = ServerInfo();
  if (url_.tls != nullptr && url_.tls->options().insecure) {
    info->warnings.push_back(NotVerified(server_));
  }
  Checks checks(*this, info);
  for (size_t i = 0; i < steps_.size(); ++i) {
    absl::Status status = (checks.*steps_[i])(replies[i]);
    if (!status.ok()) return status;
  }
  for (std::string& warning : info->warnings) warning = base::Shown(warning);
  return absl::OkStatus();
}

absl::Status Handshake::CheckHello(const Reply& hello) const {
  ServerInfo info;
  Checks checks(*this, &info);
  absl::Status said = checks.Hello(hello);
  return said.ok() ? checks.VersionAndMode() : said;
}

}  // namespace redlatch::redis
