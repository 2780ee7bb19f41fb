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
constexpr std::string_view kChannels = "redlatch:*";

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

std::vector<std::string> TextsOf(const Reply& list) {
  std::vector<std::string> texts;
  for (const Reply& each : list.elements) texts.push_back(each.text);
  return texts;
}

absl::Status Lacks(std::string_view server, std::string_view user, const std::string& rules) {
  const std::string who(user.empty() ? "default" : user);
  return absl::PermissionDeniedError(
      absl::StrCat(std::string(server), " does not permit user ", who,
                   " all that locks need (grant it: ACL SETUSER ", who, " ", rules, ")"));
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
  return {"EVAL", kProbe, "0", Needs(in_cluster), kKey, kChannels, in_cluster ? "S" : ""};
}

absl::Status CheckNeeds(const Reply& reply, std::string_view server, std::string_view user,
                        bool in_cluster) {
  // The probe could not check the channels. A user with all channels cannot be given some.
  const std::string and_channels =
      absl::StrCat("; and &", std::string(kChannels), " unless it has all channels");
  if (reply.is_error()) {
    return Lacks(server, user,
                 absl::StrCat("+", absl::StrJoin(NeededCommands(in_cluster), " +"), and_channels));
  }
  if (reply.elements.size() != 2) return absl::OkStatus();  // its Lua is not Redis'
  const std::vector<std::string> unknown = TextsOf(reply.elements[0]);
  if (!unknown.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(std::string(server), " does not know ", absl::StrJoin(unknown, ", "),
                     ", which locks need under that name (remove its rename-command line from the "
                     "server's configuration)"));
  }
  const std::vector<std::string> denied = TextsOf(reply.elements[1]);
  if (denied.empty()) return absl::OkStatus();
  const bool channels_unknown = std::any_of(
      denied.begin(), denied.end(),
      [](const std::string& rule) { return rule == "+publish" || rule == "+spublish"; });
  return Lacks(server, user,
               absl::StrCat(absl::StrJoin(denied, " "), channels_unknown ? and_channels : ""));
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

constexpr std::string_view kImitation =
    "; redlatch needs Redis 7.0 or later, or Valkey, itself: an imitation such as fakeredis or "
    "miniredis does not run its scripts as they do";

// A server's text about itself, which may hold anything, shortened for a message.
std::string_view Short(std::string_view text) { return text.substr(0, 200); }

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
  if (DeniesKey(reply.text)) return Lacks(url.DebugString(), url.user, "~" + begin.key);
  if (absl::IsPermissionDenied(status) || absl::IsFailedPrecondition(status)) return status;
  return absl::UnavailableError(absl::StrCat(
      std::string(status.message()),
      "; it must begin its quarantine, or its restart delay, before it gets any other command"));
}

Handshake::Handshake(const Url& url, Purpose purpose, std::optional<FirstScript> begin)
    : url_(url), server_(url.DebugString()), begin_(std::move(begin)) {
  if (!url.user.empty() || !url.password.empty()) {
    Add(&Handshake::CheckAuth, url.user.empty() ? Command({"AUTH", url.password})
                                                : Command({"AUTH", url.user, url.password}));
  }
  if (url.db != 0) Add(&Handshake::CheckSelect, {"SELECT", std::to_string(url.db)});
  if (purpose == Purpose::kQuestions) {
    Add(&Handshake::CheckPing, {"PING"});
    return;
  }
  if (!url.client_name.empty())
    Add(&Handshake::CheckSetName, {"CLIENT", "SETNAME", url.client_name});
  Add(&Handshake::ReadHello, {"HELLO", "3"});
  if (purpose == Purpose::kSubscriptions) return;
  Add(&Handshake::ReadServer, {"INFO", "server"});
  Add(&Handshake::ReadReplication, {"INFO", "replication"});
  if (url.quarantine > absl::ZeroDuration()) {
    Add(&Handshake::ReadReplicaLag, {"CONFIG", "GET", "min-replicas-max-lag"});
  }
  Add(&Handshake::CheckMemory, {"INFO", "memory"});
  Add(&Handshake::CheckCommands, NeedsProbe(url.in_cluster));
  Add(&Handshake::CheckScript, {"EVALSHA", kNoSuchScript, "0"});
  if (begin_) Add(&Handshake::CheckBegin, begin_->command);
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
  Facts facts{.info = info};
  for (size_t i = 0; i < steps_.size(); ++i) {
    absl::Status status = (this->*steps_[i])(replies[i], facts);
    if (!status.ok()) return status;
  }
  for (std::string& warning : info->warnings) warning = base::Shown(warning);
  return absl::OkStatus();
}

absl::Status Handshake::CheckHello(const Reply& hello) const {
  ServerInfo info;
  Facts facts{.info = &info};
  if (absl::Status said = ReadHello(hello, facts); !said.ok()) return said;
  return CheckServer(facts);
}

absl::Status Handshake::CheckAuth(const Reply& reply, Facts&) const {
  if (!reply.is_error()) return absl::OkStatus();
  if (IsTransient(ClassifyError(reply.text))) return ErrorStatus(reply.text, server_);
  return absl::PermissionDeniedError(ErrorStatus(WithoutArguments(reply.text), server_).message());
}

absl::Status Handshake::CheckSelect(const Reply& reply, Facts&) const {
  return reply.is_error() ? Refusal(reply) : absl::OkStatus();
}

absl::Status Handshake::CheckSetName(const Reply& reply, Facts& facts) const {
  if (!reply.is_error()) return absl::OkStatus();
  if (IsTransient(ClassifyError(reply.text))) return ErrorStatus(reply.text, server_);
  facts.info->warnings.push_back(
      absl::StrCat(server_, " does not accept a client name: ", std::string(Short(reply.text)),
                   " (it is not needed)"));
  return absl::OkStatus();
}

absl::Status Handshake::Refusal(const Reply& reply) const {
  absl::Status status = ErrorStatus(reply.text, server_);
  if (absl::IsUnavailable(status) || absl::IsPermissionDenied(status)) return status;
  const bool strange = absl::IsInternal(status) || absl::IsNotFound(status);
  return absl::FailedPreconditionError(
      absl::StrCat(std::string(status.message()), std::string(strange ? kImitation : "")));
}

absl::Status Handshake::ReadHello(const Reply& reply, Facts& facts) const {
  if (reply.is_error()) {
    absl::Status status = ErrorStatus(reply.text, server_);
    const ErrorCode error = ClassifyError(reply.text);
    if (error == ErrorCode::kNoPermission) {
      return Lacks(server_, url_.user, "+hello");
    }
    const bool tells = absl::IsUnavailable(status) || absl::IsPermissionDenied(status);
    if (tells && error != ErrorCode::kUnknownCommand) return status;
    return absl::FailedPreconditionError(
        absl::StrCat(server_, " does not speak RESP 3: it answers HELLO 3 with \"",
                     std::string(Short(WithoutArguments(reply.text))),
                     "\" (redlatch needs Redis 7.0 or later, or Valkey, without a proxy that "
                     "speaks RESP 2 only; "
                     "if a rename-command line took HELLO away, remove it)"));
  }
  facts.version = Short(ValueOf(reply, "version"));
  facts.valkey = ValueOf(reply, "server") == "valkey";
  facts.mode = Short(ValueOf(reply, "mode"));
  facts.role = Short(ValueOf(reply, "role"));
  return absl::OkStatus();
}

absl::Status Handshake::ReadServer(const Reply& reply, Facts& facts) const {
  if (CannotAsk(reply)) {
    const bool unknown = ClassifyError(reply.text) == ErrorCode::kUnknownCommand;
    facts.info->warnings.push_back(absl::StrCat(
        server_, unknown
                     ? " does not know INFO: its memory policy was not checked (see that it is "
                       "noeviction)"
                     : " does not let this user run INFO: its memory policy was not checked (grant "
                       "it: ACL SETUSER <user> +info)"));
    return CheckServer(facts);
  }
  if (reply.is_error()) return Refusal(reply);
  const std::string_view valkey = InfoField(reply.text, "valkey_version");
  facts.valkey = !valkey.empty();
  facts.version = Short(facts.valkey ? valkey : InfoField(reply.text, "redis_version"));
  facts.mode = Short(InfoField(reply.text, "redis_mode"));
  if (facts.mode.empty()) facts.mode = Short(InfoField(reply.text, "server_mode"));  // Valkey's
  facts.info->run_id = std::string(InfoField(reply.text, "run_id"));
  if (!facts.version.empty()) return CheckServer(facts);
  return absl::FailedPreconditionError(
      absl::StrCat(server_, " does not tell its version", std::string(kImitation)));
}

absl::Status Handshake::CheckMemory(const Reply& reply, Facts& facts) const {
  if (CannotAsk(reply)) return absl::OkStatus();
  if (reply.is_error()) return Refusal(reply);
  const std::string_view limit = InfoField(reply.text, "maxmemory");
  const std::string_view policy = Short(InfoField(reply.text, "maxmemory_policy"));
  if (policy.empty() || policy == "noeviction") return absl::OkStatus();
  const std::string what = absl::StrCat(
      server_, " has maxmemory-policy ", std::string(policy),
      ": it evicts held locks when its memory is full (CONFIG SET maxmemory-policy noeviction");
  if (limit == "0" || url_.allow_eviction) {
    facts.info->warnings.push_back(
        absl::StrCat(what, limit == "0" ? "; at present there is no memory limit" : "", ")"));
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(what, ", or accept the risk with ?eviction=allow in the URL)"));
}

absl::Status Handshake::ReadReplication(const Reply& reply, Facts& facts) const {
  if (CannotAsk(reply)) {
    if (url_.quarantine <= absl::ZeroDuration()) return CheckRole(facts);
    return absl::PermissionDeniedError(
        absl::StrCat(server_,
                     " does not let this user run INFO, by which a promotion is known: "
                     "quarantine= needs it (grant it: ACL SETUSER <user> +info; or use "
                     "LockOptions::acks instead)"));
  }
  if (reply.is_error()) return Refusal(reply);
  facts.role = Short(InfoField(reply.text, "role"));
  facts.info->replication_id = std::string(InfoField(reply.text, "master_replid"));
  if (facts.info->replication_id.empty() && url_.quarantine > absl::ZeroDuration()) {
    return absl::FailedPreconditionError(absl::StrCat(
        server_,
        " does not tell its master_replid, by which a promotion is known: quarantine= needs it "
        "(use LockOptions::acks instead)"));
  }
  facts.primary_host = Short(InfoField(reply.text, "master_host"));
  facts.primary_port = Short(InfoField(reply.text, "master_port"));
  return CheckRole(facts);
}

// If this user may not read the setting, its default is assumed.
absl::Status Handshake::ReadReplicaLag(const Reply& reply, Facts& facts) const {
  if (reply.elements.size() == 2) {
    facts.info->longest_replica_lag = absl::Seconds(std::atoi(reply.elements[1].text.c_str()));
  } else {
    facts.info->warnings.push_back(absl::StrCat(
        server_,
        " does not let this user read its min-replicas-max-lag, which quarantine= needs: it is "
        "taken for ",
        absl::FormatDuration(facts.info->longest_replica_lag),
        " (grant it: ACL SETUSER <user> +config|get; or make sure that it is no more)"));
  }
  const absl::Duration alone = facts.info->longest_replica_lag + absl::Seconds(1);
  if (alone < url_.quarantine) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      server_, " may grant for ", absl::FormatDuration(alone),
      " after it was cut off (min-replicas-max-lag): quarantine= must be longer than that and the "
      "longest lease together"));
}

absl::Status Handshake::CheckCommands(const Reply& reply, Facts& facts) const {
  // NOSCRIPT makes no sense here: the probe was sent as text.
  if (reply.is_error() && ClassifyError(reply.text) == ErrorCode::kNoScript) return Refusal(reply);
  if (reply.is_error() && ClassifyError(reply.text) != ErrorCode::kNoPermission) {
    return CheckScript(reply, facts);
  }
  return CheckNeeds(reply, server_, url_.user, url_.in_cluster);
}

absl::Status Handshake::CheckScript(const Reply& reply, Facts&) const {
  const ErrorCode error = reply.is_error() ? ClassifyError(reply.text) : ErrorCode::kNoScript;
  if (error == ErrorCode::kNoScript) return absl::OkStatus();
  if (error == ErrorCode::kNoPermission) {
    return absl::PermissionDeniedError(absl::StrCat(
        server_, " does not let this user run scripts: ", std::string(Short(reply.text)),
        " (grant it: ACL SETUSER <user> +eval +evalsha +script)"));
  }
  return Refusal(reply);
}

// A user who may not run PING was still accepted. So was one at a server that cannot write; its
// later replies say why.
absl::Status Handshake::CheckPing(const Reply& reply, Facts&) const {
  const bool let_in = !reply.is_error() || reply.text.starts_with("MISCONF ") ||
                      ClassifyError(reply.text) == ErrorCode::kNoPermission;
  return let_in ? absl::OkStatus() : Refusal(reply);
}

absl::Status Handshake::CheckBegin(const Reply& reply, Facts&) const {
  return CheckBegun(*begin_, reply, url_);
}

absl::Status Handshake::CheckServer(const Facts& facts) const {
  facts.info->version = std::string(facts.version);
  facts.info->conditional_delete = ConditionalDeleteOf(facts.version, facts.valkey);
  if (!facts.info->version.empty() && !facts.valkey &&
      std::atoi(facts.info->version.c_str()) < kOldestMajor) {
    return absl::FailedPreconditionError(absl::StrCat(server_, " is Redis ", facts.info->version,
                                                      "; redlatch needs 7.0 or later, or Valkey"));
  }
  if (facts.mode == "sentinel") {
    return absl::FailedPreconditionError(
        absl::StrCat(server_, " is a sentinel (begin the URL with redis-sentinel://)"));
  }
  if (facts.mode == "cluster" && !url_.in_cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat(server_, " is a node of a cluster (begin the URL with redis-cluster://)"));
  }
  if (url_.in_cluster && !facts.mode.empty() && facts.mode != "cluster") {
    return absl::FailedPreconditionError(
        absl::StrCat(server_, " is no node of a cluster (begin the URL with redis://)"));
  }
  return absl::OkStatus();
}

absl::Status Handshake::CheckRole(const Facts& facts) const {
  // "slave" in INFO, "replica" in HELLO.
  if (facts.role != "replica" && facts.role != "slave") return absl::OkStatus();
  const std::string primary = facts.primary_host.empty()
                                  ? ""
                                  : absl::StrCat(" of ", std::string(facts.primary_host), ":",
                                                 std::string(facts.primary_port));
  // kUnavailable, since a failover may be in progress, and this server may soon be the primary.
  return absl::UnavailableError(
      absl::StrCat(server_, " is a replica", primary, " (connect to the primary)"));
}

}  // namespace redlatch::redis
