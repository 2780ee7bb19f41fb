#include <bitset>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/random.h"
#include "src/cli/doctor/doctor.h"
#include "src/cli/inspect/inspect.h"
#include "src/cli/term/output.h"
#include "src/lock/key_set.h"
#include "src/lock/kinds.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/connect/sentinel.h"
#include "src/redis/embedded/embedded.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

namespace kinds = internal::kinds;
using redis::Command;
using redis::PlainConnection;
using redis::Reply;
using Type = redis::Reply::Type;
using Outcome = CommandProbe::Outcome;

constexpr absl::Duration kAnswerTimeout = absl::Seconds(2);
constexpr absl::Duration kMeasuring = absl::Milliseconds(500);
constexpr size_t kMostPings = 500;
constexpr size_t kMostMessages = 20;
constexpr int64_t kMostConnectionsListed = 5000;

// ---- Every command that locks need, in a form that changes nothing.

// "+" marks a command that creates the key, with a TTL; "~" one that would create a key without a
// TTL if there were none; "?" one that locks do not need. $k, $q, $r and $c are the key, its queue,
// its readers and the channel; '' is an empty word.
constexpr char kProbes[] = R"(
ping; +set $k 0 PX 5000; +psetex $k 5000 0; get $k; exists $q $r; getrange $k 0 0; setrange $k 0 '';
pexpire $k 5000 LT; pexpireat $k 9000000000000 LT; pttl $k; hget $k f; hset $k f v odd; hdel $k f;
hexists $k f; hgetall $k; hkeys $k; hmget $k f; hincrby $k f nan; ~hsetnx $k f v; zadd $k XX 0 m;
zrem $k m; zremrangebyrank $k 0 0; zcard $k; zcount $k 0 0; zrange $k 0 0; zrangebyscore $k 0 0;
zrank $k m; zscore $k m; time; eval return(0) 0; evalsha 0000000000000000000000000000000000000000 0;
?exists redlatch:client:doctor; ?mget $k; rename $q $q; unlink $q; del $k)";
constexpr char kPlainProbes[] = "; publish $c ''; pubsub|numsub $c";
constexpr char kClusterProbes[] =
    "; spublish $c ''; pubsub|shardnumsub $c; cluster|slots; cluster|info; asking";

}  // namespace

std::vector<ProbeWords> ProbesOf(const std::string& key, const std::string& channel,
                                 bool in_cluster) {
  const std::map<std::string, std::string> meant = {
      {"$k", key},
      {"$q", internal::AuxiliaryKey(key, QueueSuffix(kinds::kSimple))},
      {"$r", internal::AuxiliaryKey(key, kinds::kReadersSuffix)},
      {"$c", channel},
      {"''", ""}};
  std::vector<ProbeWords> probes;
  for (absl::string_view text :
       absl::StrSplit(absl::StrCat(kProbes, in_cluster ? kClusterProbes : kPlainProbes), ';')) {
    text = absl::StripAsciiWhitespace(text);
    ProbeWords probe;
    probe.makes_key = absl::ConsumePrefix(&text, "+");
    probe.needs_key = absl::ConsumePrefix(&text, "~");
    probe.optional = absl::ConsumePrefix(&text, "?");
    const std::vector<std::string> words = absl::StrSplit(text, ' ');
    probe.command = words[0];
    probe.words = absl::StrSplit(absl::AsciiStrToUpper(words[0]), '|');
    for (size_t i = 1; i < words.size(); ++i) {
      const auto found = meant.find(words[i]);
      probe.words.push_back(found == meant.end() ? words[i] : found->second);
    }
    probes.push_back(std::move(probe));
  }
  return probes;
}

Outcome ProbeOutcome(const Reply& reply) {
  if (!reply.is_error()) return Outcome::kAllowed;
  if (absl::StartsWith(reply.text, "ERR unknown command") ||
      absl::StartsWith(reply.text, "ERR unknown subcommand")) {
    return Outcome::kUnknownToServer;
  }
  if (redis::ClassifyError(reply.text) != redis::ErrorCode::kNoPermission) {
    return Outcome::kAllowed;
  }
  // The wording of Redis 7.0, then that of later versions and of Valkey.
  if (absl::StrContains(reply.text, "to access one of the channels") ||
      absl::EndsWith(reply.text, " channel")) {
    return Outcome::kNoChannel;
  }
  return absl::StrContains(reply.text, "to access ") ? Outcome::kNoKey : Outcome::kNoCommand;
}

// ---- Reading replies of Redis.

namespace {

absl::Status Refusal(const Reply& reply) {
  if (!reply.is_error()) return absl::InternalError("an answer of an unknown form");
  if (redis::ClassifyError(reply.text) == redis::ErrorCode::kNoPermission) {
    return absl::PermissionDeniedError(reply.text);
  }
  return absl::FailedPreconditionError(reply.text);
}

// The texts before and after the separator.
std::pair<std::string, std::string> Split(absl::string_view line, char separator) {
  return absl::StrSplit(line, absl::MaxSplits(separator, 1));
}

// "a=1,b=2"
Told<Fields> Pairs(absl::string_view text, char between) {
  Fields fields;
  for (const absl::string_view pair : absl::StrSplit(text, between, absl::SkipEmpty())) {
    fields.insert(Split(pair, '='));
  }
  return fields;
}

}  // namespace

Told<Fields> InfoAnswer(const Reply& reply) {
  if (reply.type != Type::kString) return Refusal(reply);
  Fields fields;
  for (absl::string_view line : absl::StrSplit(reply.text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    fields.insert(Split(line, ':'));
  }
  // Valkey calls the mode "server_mode".
  if (const auto mode = fields.find("server_mode"); mode != fields.end()) {
    fields.emplace("redis_mode", mode->second);
  }
  return fields;
}

Told<Fields> PairsAnswer(const Reply& reply) {
  if (!reply.is_array()) return Refusal(reply);
  Fields fields;
  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    fields[absl::AsciiStrToLower(reply.elements[i].text)] = reply.elements[i + 1].text;
  }
  return fields;
}

Told<Fields> ConfigAnswer(const Reply& reply) {
  Told<Fields> fields = PairsAnswer(reply);
  if (fields.ok() && fields->empty()) {
    return absl::FailedPreconditionError("CONFIG GET tells nothing");
  }
  return fields;
}

namespace {

// Each entry has the delay's time at [1]. `read` sets the other members.
Told<std::vector<Delay>> DelaysAnswer(
    const Reply& reply, absl::Time now,
    const std::function<Delay(const std::vector<Reply>& entry)>& read) {
  if (!reply.is_array()) return Refusal(reply);
  std::vector<Delay> delays;
  for (const Reply& entry : reply.elements) {
    if (entry.elements.size() < 4) continue;
    delays.push_back(read(entry.elements));
    delays.back().ago = now - absl::FromUnixSeconds(entry.elements[1].integer);
  }
  return delays;
}

}  // namespace

Told<std::vector<Delay>> SlowLogAnswer(const Reply& reply, absl::Time now) {
  return DelaysAnswer(reply, now, [](const std::vector<Reply>& entry) -> Delay {
    const std::vector<Reply>& words = entry[3].elements;
    return {.what = words.empty() ? "" : words[0].text,
            .took = absl::Microseconds(entry[2].integer)};
  });
}

Told<std::vector<Delay>> LatencyAnswer(const Reply& reply, absl::Time now) {
  return DelaysAnswer(reply, now, [](const std::vector<Reply>& entry) -> Delay {
    return {.what = entry[0].text, .took = absl::Milliseconds(entry[3].integer)};
  });
}

Told<std::vector<PubSubBacklog>> ClientListAnswer(const Reply& reply) {
  if (reply.type != Type::kString) return Refusal(reply);
  std::vector<PubSubBacklog> backlogs;
  for (const absl::string_view line : absl::StrSplit(reply.text, '\n', absl::SkipWhitespace())) {
    const Told<Fields> client = Pairs(line, ' ');
    backlogs.push_back({.address = TextIn(client, "addr").value_or("?"),
                        .name = TextIn(client, "name").value_or(""),
                        .bytes = NumberIn(client, "omem").value_or(0)});
  }
  return backlogs;
}

Told<absl::Time> TimeAnswer(const Reply& reply) {
  int64_t seconds = 0;
  int64_t micros = 0;
  if (!reply.is_array() || reply.elements.size() != 2 ||
      !absl::SimpleAtoi(reply.elements[0].text, &seconds) ||
      !absl::SimpleAtoi(reply.elements[1].text, &micros)) {
    return Refusal(reply);
  }
  return absl::FromUnixSeconds(seconds) + absl::Microseconds(micros);
}

Told<Holdback> HoldbackAnswer(const Reply& reply) {
  if (reply.is_error()) return Refusal(reply);
  const std::vector<std::string> words = absl::StrSplit(reply.text, ' ');
  int64_t until_ms = 0;
  int64_t length_ms = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], &until_ms) ||
      !absl::SimpleAtoi(words[2], &length_ms)) {
    return absl::NotFoundError("no such record");
  }
  return Holdback{.until = absl::FromUnixMillis(until_ms), .length = absl::Milliseconds(length_ms)};
}

std::vector<Replica> ReplicasIn(const Fields& info) {
  std::vector<Replica> replicas;
  for (const auto& [name, value] : info) {
    int64_t number = 0;
    if (!name.starts_with("slave") || !absl::SimpleAtoi(name.substr(5), &number)) continue;
    const Told<Fields> replica = Pairs(value, ',');
    replicas.push_back({.address = absl::StrCat(TextIn(replica, "ip").value_or("?"), ":",
                                                TextIn(replica, "port").value_or("?")),
                        .state = TextIn(replica, "state").value_or("unknown"),
                        .lag = absl::Seconds(NumberIn(replica, "lag").value_or(0))});
  }
  return replicas;
}

// ---- One server.

namespace {

// A lock that could not be released stays for that long.
constexpr absl::Duration kTrialLease = absl::Seconds(2);
constexpr absl::Duration kTrialTimeout = absl::Seconds(1);
constexpr int kPairs = 20;
const AcquireOptions kTrial = {.wait = kTrialTimeout, .lease = kTrialLease};

absl::Status ReleaseOf(absl::StatusOr<Lease> lease) {
  if (!lease.ok()) return lease.status();
  const absl::Status extended = lease->Extend(kTrialLease);
  const absl::Status released = lease->Release();
  return extended.ok() ? released : extended;
}

absl::Status TryLock(RedisLockBase& lock) {
  const absl::Status released = ReleaseOf(lock.Acquire(kTrial));
  return released.ok() ? lock.Inspect().status() : released;
}

absl::Status TryReadWrite(ReentrantReadWriteLock& lock) {
  const absl::Status wrote = TryLock(lock);
  return wrote.ok() ? ReleaseOf(lock.AcquireRead(kTrial)) : wrote;
}

absl::Status TrySemaphore(Semaphore& semaphore) {
  absl::StatusOr<Permit> permit = semaphore.Acquire(1, kTrial);
  if (!permit.ok()) return permit.status();
  const absl::Status released = permit->Release();
  return released.ok() ? semaphore.Inspect().status() : released;
}

absl::Status TryLatch(CountDownLatch& latch) {
  const absl::Status counted = latch.CountDown();
  return counted.ok() ? latch.Wait({.wait = kTrialTimeout}) : counted;
}

absl::Status MeasurePairs(RedisLockBase& lock, base::Instant deadline, absl::Duration* slowest) {
  for (int i = 0; i < kPairs && base::Now() < deadline; ++i) {
    const base::Instant begun = base::Now();
    absl::StatusOr<Lease> lease = lock.Acquire(kTrial);
    if (!lease.ok()) return lease.status();
    if (absl::Status released = lease->Release(); !released.ok()) return released;
    *slowest = std::max(*slowest, base::Now() - begun);
  }
  return absl::OkStatus();
}

// Removes the option from the URL: a check neither waits for a quarantine or a restart delay, nor
// begins one.
std::string Without(std::string_view option, std::string url) {
  for (size_t at = url.find(option); at != std::string::npos; at = url.find(option, at + 1)) {
    if (at == 0 || (url[at - 1] != '?' && url[at - 1] != '&')) continue;
    const size_t end = url.find('&', at);
    return end == std::string::npos ? url.substr(0, at - 1) : url.erase(at, end + 1 - at);
  }
  return url;
}

// The parent of a process; 0 if it is unknown, or if the parent has died and init has adopted the
// process.
int64_t KeeperOf(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat, '\0');  // "17 (a name, with anything in it) S 16 ..."
  const std::vector<std::string> words =
      absl::StrSplit(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)), ' ');
  int64_t parent = 0;
  return words.size() > 2 && absl::SimpleAtoi(words[2], &parent) && parent > 1 ? parent : 0;
}

class Gatherer {
 public:
  Gatherer(const CheckTarget& target, base::Instant deadline, DoctorFacts* facts)
      : url_(target.url),
        url_text_(target.url_text),
        shard_(target.shard),
        random_(absl::StrCat(absl::Hex(base::RandomBits(), absl::kZeroPad16))),
        name_(Here(absl::StrCat(target.prefix, "redlatch-doctor:", random_))),
        channel_(absl::StrCat("redlatch:", TagHere(), "doctor:", random_)),
        deadline_(deadline),
        facts_(*facts) {
    facts_.server = url_.DebugString();
    facts_.place = target.place;
    facts_.locks_elsewhere = shard_ != nullptr && !shard_->Has(name_);
    facts_.prefix = target.prefix;
    facts_.over_network = url_.kind == redis::Url::Kind::kTcp && url_.host != "localhost" &&
                          url_.host != "::1" && !absl::StartsWith(url_.host, "127.");
    facts_.eviction_allowed = url_.allow_eviction;
    facts_.quarantine = url_.quarantine;
    facts_.of_quorum = target.of_quorum;
    facts_.restart_delay = url_.restart_delay;
    facts_.checked_at = absl::Now();
    facts_.has_password = !url_.password.empty();
    if (!url_.user.empty()) facts_.user = url_.user;
  }

  absl::Status Run() {
    if (absl::Status bad = internal::CheckMainKey(name_); !bad.ok()) return bad;
    const bool embedded = url_.kind == redis::Url::Kind::kEmbedded;
    const auto running = embedded ? redis::FindEmbeddedServer(url_.path) : std::nullopt;
    auto opened = PlainConnection::Open(url_, Soon());
    if (!opened.ok()) return opened.status();
    connection_ = &*opened;
    facts_.certificate_until = connection_->certificate_until();
    if (url_.sentinels != nullptr) AskSentinels();
    absl::Status done = AskAll();
    if (embedded) {
      facts_.embedded = {.directory = redis::EmbeddedDirectory(url_.path).value_or(url_.path),
                         .server_pid = NumberIn(facts_.info, "process_id").value_or(0),
                         .started_by_us = !running.ok() || !running->has_value()};
      facts_.embedded->keeper_pid = KeeperOf(facts_.embedded->server_pid);
    }
    return done;
  }

 private:
  base::Instant Soon() const { return std::min(deadline_, base::Now() + kAnswerTimeout); }

  // The name, with a suffix that puts it into this shard if there is such a suffix.
  std::string Here(const std::string& name) const {
    return shard_ == nullptr ? name : NameIn(*shard_, name).value_or(name);
  }
  // A hash tag of this shard and a colon; empty outside of a cluster.
  std::string TagHere() const {
    if (shard_ == nullptr) return "";
    redis::Slot slot = 0;
    while (!shard_->slots.test(slot) && slot + 1 < redis::kSlots) ++slot;
    return redis::TagOf(slot) + ":";
  }

  absl::Status AskAll() {
    using G = Gatherer;
    const std::vector<absl::Status (G::*)()> of_replica = {&G::AskServer, &G::AskForTime, &G::Probe,
                                                           &G::Ping, &G::AskForTime};
    const std::vector<absl::Status (G::*)()> of_primary = {
        &G::AskServer,   &G::AskForRecords, &G::AskForSubscribers, &G::AskForTime,
        &G::Probe,       &G::Ping,          &G::AskForTime,        &G::SendMessages,
        &G::AskReplicas, &G::Try,           &G::AskForTime};
    for (const auto step : facts_.place == Place::kReplica ? of_replica : of_primary) {
      if (absl::Status done = (this->*step)(); !done.ok()) return done;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Reply> Ask(const Command& command) { return connection_->Call(command, Soon()); }

  absl::Status AskServer() {
    const std::vector<Command> commands = {
        Command{"INFO"},
        Command{"CONFIG", "GET", "save", "appendfsync", "stop-writes-on-bgsave-error",
                "min-replicas-to-write", "min-replicas-max-lag", "client-output-buffer-limit",
                "timeout", "tcp-keepalive", "busy-reply-threshold", "lua-time-limit",
                "repl-backlog-ttl", "maxmemory-clients", "notify-keyspace-events",
                "latency-monitor-threshold", "cluster-node-timeout",
                "cluster-require-full-coverage", "cluster-allow-pubsubshard-when-down"},
        Command{"SLOWLOG", "GET", "128"}, Command{"LATENCY", "LATEST"}, Command{"TIME"}};
    const auto replies = connection_->CallAll(commands, Soon());
    if (!replies.ok()) return replies.status();
    facts_.info = InfoAnswer((*replies)[0]);
    facts_.config = ConfigAnswer((*replies)[1]);
    const absl::Time now = TimeAnswer((*replies)[4]).value_or(absl::Now());
    facts_.slow_commands = SlowLogAnswer((*replies)[2], now);
    facts_.latency_spikes = LatencyAnswer((*replies)[3], now);
    if (facts_.info.ok()) facts_.replicas = ReplicasIn(*facts_.info);
    return absl::OkStatus();
  }

  absl::Status AskForRecords() {
    const std::string key =
        facts_.of_quorum ? internal::QuorumKey({}) : internal::PrimaryEpochKey(TagHere());
    const auto reply = Ask(Command{"GET", key});
    if (!reply.ok()) return reply.status();
    const Told<Holdback> record = HoldbackAnswer(*reply);
    if (facts_.of_quorum) {
      facts_.delay = record;
    } else if (record.ok()) {
      facts_.epoch = *record;
    }
    return absl::OkStatus();
  }

  absl::Status AskForSubscribers() {
    if (NumberIn(facts_.info, "connected_clients").value_or(0) > kMostConnectionsListed) {
      facts_.pubsub_backlogs = absl::FailedPreconditionError(
          "with so many connections it would block the server for too long");
      return absl::OkStatus();
    }
    const auto reply = Ask(Command{"CLIENT", "LIST", "TYPE", "pubsub"});
    if (reply.ok()) facts_.pubsub_backlogs = ClientListAnswer(*reply);
    return reply.status();
  }

  absl::Status AskForTime() {
    const base::Instant sent = base::Now();
    const auto reply = Ask(Command{"TIME"});
    if (!reply.ok()) return reply.status();
    if (const auto server = TimeAnswer(*reply); server.ok()) {
      facts_.clock.push_back({.sent = sent - base::Instant(),
                              .received = base::Now() - base::Instant(),
                              .server = *server,
                              .here = absl::Now()});
    }
    return absl::OkStatus();
  }

  // Sends the probes that create the key first, since others would create it without a TTL.
  absl::Status Probe() {
    std::vector<ProbeWords> first;
    std::vector<ProbeWords> others;
    for (ProbeWords& probe : ProbesOf(name_, channel_, shard_ != nullptr)) {
      (probe.makes_key ? first : others).push_back(std::move(probe));
    }
    if (absl::Status done = ProbeAll(first); !done.ok()) return done;
    const bool made = std::ranges::find(facts_.probes, Outcome::kAllowed, &CommandProbe::outcome) !=
                      facts_.probes.end();
    if (!made) std::erase_if(others, [](const ProbeWords& probe) { return probe.needs_key; });
    return ProbeAll(others);
  }

  absl::Status ProbeAll(const std::vector<ProbeWords>& probes) {
    std::vector<Command> commands;
    for (const ProbeWords& probe : probes) {
      commands.push_back(
          Command(std::vector<std::string_view>(probe.words.begin(), probe.words.end())));
    }
    const auto replies = connection_->CallAll(commands, Soon());
    if (!replies.ok()) return replies.status();
    for (size_t i = 0; i < probes.size(); ++i) {
      AddProbe(probes[i].command, (*replies)[i], probes[i].optional);
    }
    return absl::OkStatus();
  }
  void AddProbe(const std::string& command, const Reply& reply, bool optional = false) {
    facts_.probes.push_back(
        {.command = command, .outcome = ProbeOutcome(reply), .optional = optional});
  }

  absl::Status Ping() {
    const base::Instant until = base::Now() + kMeasuring;
    while (facts_.pings.size() < kMostPings && base::Now() < until) {
      const base::Instant sent = base::Now();
      const auto reply = Ask(Command{"PING"});
      if (!reply.ok() || reply->is_error()) return reply.status();
      facts_.pings.push_back(base::Now() - sent);
    }
    return absl::OkStatus();
  }

  // Tests whether a message from one connection reaches another. At a node of a cluster it uses a
  // sharded channel.
  absl::Status SendMessages() {
    const std::string s = url_.in_cluster ? "s" : "";
    auto opened = PlainConnection::Open(url_, Soon());
    if (!opened.ok()) {
      facts_.message = absl::FailedPreconditionError(opened.status().message());
      return absl::OkStatus();
    }
    PlainConnection listener = *std::move(opened);
    const auto subscribed = listener.Call(Command{s + "subscribe", channel_}, Soon());
    if (!subscribed.ok()) return subscribed.status();
    AddProbe(s + "subscribe", *subscribed);
    if (subscribed->is_error()) return RefuseMessages(*subscribed);
    std::vector<absl::Duration> times;
    const base::Instant until = base::Now() + kMeasuring;
    while (times.empty() || (times.size() < kMostMessages && base::Now() < until)) {
      const base::Instant sent = base::Now();
      const auto published = Ask(Command{s + "publish", channel_, "x"});
      if (!published.ok()) return published.status();
      if (published->is_error()) return RefuseMessages(*published);
      if (!listener.Receive(Soon()).ok()) {
        facts_.message = absl::DeadlineExceededError(
            published->integer == 0
                ? std::string("this address leads to several servers: one connection subscribed, "
                              "and another that published found no subscriber")
                : absl::StrCat("none came within ", absl::FormatDuration(kAnswerTimeout)));
        return absl::OkStatus();
      }
      times.push_back(base::Now() - sent);
    }
    facts_.message = SpreadOf(std::move(times)).p50;
    const auto left = listener.Call(Command{s + "unsubscribe", channel_}, Soon());
    if (left.ok()) AddProbe(s + "unsubscribe", *left);
    return left.status();
  }

  // Any other error, such as that a slot has just moved, says nothing about messages.
  absl::Status RefuseMessages(const Reply& reply) {
    const redis::ErrorCode code = redis::ClassifyError(reply.text);
    const bool refused =
        code == redis::ErrorCode::kNoPermission || code == redis::ErrorCode::kUnknownCommand;
    facts_.message = refused ? absl::PermissionDeniedError(reply.text)
                             : absl::FailedPreconditionError(reply.text);
    return absl::OkStatus();
  }

  absl::Status AskReplicas() {
    if (facts_.replicas.empty() || facts_.locks_elsewhere) return absl::OkStatus();
    const base::Instant sent = base::Now();
    const std::vector<Command> commands = {
        Command{"SET", name_, "0", "PX", "1000"},
        Command{"WAIT", absl::StrCat(facts_.replicas.size()), "200"}, Command{"DEL", name_}};
    const auto replies = connection_->CallAll(commands, Soon());
    if (!replies.ok()) return replies.status();
    facts_.confirmation =
        Confirmation{.replicas = (*replies)[1].integer, .took = base::Now() - sent};
    for (const Reply& reply : *replies) {
      if (reply.is_error()) facts_.confirmation = absl::PermissionDeniedError(reply.text);
    }
    return absl::OkStatus();
  }

  void AskSentinels() {
    const std::string& primary = url_.sentinels->options().primary;
    for (const redis::HostAndPort& each : url_.sentinels->Known()) {
      SentinelView& view =
          facts_.sentinels.emplace_back(SentinelView{.address = each.text(), .master = Fields()});
      auto sentinel = PlainConnection::Open(UrlOfSentinel(url_, each), Soon());
      if (!sentinel.ok()) {
        view.master = sentinel.status();
        continue;
      }
      const auto reply = sentinel->Call(Command{"SENTINEL", "MASTER", primary}, Soon());
      view.master = reply.ok() ? PairsAnswer(*reply) : Told<Fields>(reply.status());
      view.names = absl::StrCat(TextIn(view.master, "ip").value_or("?"), ":",
                                TextIn(view.master, "port").value_or("?"));
    }
  }

  // False if the facts already show that redlatch does not accept the server, or that the user
  // lacks a permission. A trial would stop halfway and leave something behind.
  bool WorthATrial() const {
    const auto is = [this](std::string_view field, std::string_view value) {
      return TextIn(facts_.info, field) == value;
    };
    const bool evicts = facts_.info.ok() && !facts_.eviction_allowed && !is("maxmemory", "0") &&
                        !is("maxmemory_policy", "noeviction");
    const bool other = shard_ == nullptr && is("redis_mode", "cluster");
    const bool taken = !evicts && !is("role", "slave") && !other && !is("redis_mode", "sentinel");
    return taken && facts_.MayDoAll() && !facts_.locks_elsewhere;
  }

  absl::Status Try() {
    if (!WorthATrial()) return absl::OkStatus();
    std::vector<std::string> names;
    std::vector<Command> deletions;
    for (const std::string_view kind : kinds::kAll) {
      names.push_back(Here(absl::StrCat(name_, ":", std::string(kind))));
      deletions.push_back(DeleteLocks({names.back()}));
    }
    const base::Instant end = deadline_ - 2 * kAnswerTimeout;
    const std::string url = facts_.of_quorum ? redis::AsQuorum(Without("restart_delay=", url_text_))
                                             : Without("quarantine=", url_text_);
    // The doctor itself reports what the client would warn of.
    const absl::StatusOr<Client> client = Client::Connect(
        url, {.unreachable_after = kTrialTimeout, .on_warning = [](std::string_view) {}});
    facts_.library = client.status();
    if (client.ok() && facts_.of_quorum) {
      RedLock lock(*client, names.back());
      absl::Status outcome = TryLock(lock);
      if (outcome.ok()) outcome = MeasurePairs(lock, end, &facts_.slowest_pair);
      facts_.trials.push_back({.kind = std::string(kinds::kQuorum), .outcome = outcome});
    } else if (client.ok()) {
      TryAll(*client, names, end);
    }
    return connection_->CallAll(deletions, Soon()).status();
  }

  // Takes and releases each kind of lock. The outcome of a kind that was not tried is kCancelled.
  void TryAll(const Client& client, const std::vector<std::string>& names, base::Instant end) {
    SimpleLock simple(client, names[0]);
    ReentrantLock reentrant(client, names[1]);
    ReentrantReadWriteLock read_write(client, names[2]);
    Semaphore semaphore(client, names[3], 2);
    CountDownLatch latch(client, names[4], 1, {.ttl = kTrialLease});
    const std::function<absl::Status()> tries[] = {
        // in the order of kinds::kAll, without the quorum's kind
        [&] { return TryLock(simple); }, [&] { return TryLock(reentrant); },
        [&] { return TryReadWrite(read_write); }, [&] { return TrySemaphore(semaphore); },
        [&] { return TryLatch(latch); }};
    bool goes_on = true;
    for (size_t i = 0; i < std::size(tries); ++i) {
      goes_on = goes_on && base::Now() < end;
      const absl::Status outcome = goes_on ? tries[i]() : absl::CancelledError("not tried");
      goes_on = goes_on && !absl::IsUnavailable(outcome);
      facts_.trials.push_back({.kind = std::string(kinds::kAll[i]), .outcome = outcome});
      std::ranges::replace(facts_.trials.back().kind, '_',
                           '-');  // "read-write", as people write it
    }
    if (!goes_on) return;
    // This starts only now because the first trial also had to load its scripts.
    const absl::Status measured = MeasurePairs(simple, end, &facts_.slowest_pair);
    if (!measured.ok()) facts_.trials[0].outcome = measured;
  }

  const redis::Url& url_;
  const std::string& url_text_;
  const Shard* const shard_;
  const std::string random_;
  const std::string name_;
  const std::string channel_;
  const base::Instant deadline_;
  DoctorFacts& facts_;
  PlainConnection* connection_ = nullptr;
};

}  // namespace

absl::Status Gather(const CheckTarget& target, base::Instant deadline, DoctorFacts* facts) {
  return Gatherer(target, deadline, facts).Run();
}

// ---- Several servers.

namespace {

// How many nodes are checked at the same time.
constexpr size_t kAtOnce = 8;

using Slots = std::bitset<redis::kSlots>;

std::string RangesOf(const Slots& slots) {
  std::string text;
  for (size_t first = 0; first < slots.size(); ++first) {
    if (!slots.test(first)) continue;
    size_t last = first;
    while (last + 1 < slots.size() && slots.test(last + 1)) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ", ", first);
    if (last > first) absl::StrAppend(&text, "-", last);
    first = last;
  }
  return text;
}

Told<std::vector<ClusterLine>> NodesAnswer(const Reply& reply, const std::string& node) {
  if (reply.is_error()) return redis::ErrorStatus(reply.text, node);
  return ReadClusterNodes(reply.text);
}

void AskSeed(const redis::Url& url, const redis::HostAndPort& node, SeedFacts* seed) {
  seed->address = node.text();
  const base::Instant deadline = base::Now() + url.connect_timeout + url.command_timeout;
  auto connection = PlainConnection::Open(redis::UrlOfNode(url, node), deadline);
  seed->reached = connection.status();
  if (!connection.ok()) return;
  const Command questions[] = {Command{"CLUSTER", "SLOTS"}, Command{"CLUSTER", "NODES"}};
  const auto answers = connection->CallAll(questions, deadline);
  seed->reached = answers.status();
  if (!answers.ok()) return;
  if ((*answers)[0].is_error()) {
    seed->reached = redis::ErrorStatus((*answers)[0].text, seed->address);
    return;
  }
  for (const Reply& range : (*answers)[0].elements) {
    if (range.elements.size() < 3 || range.elements[2].elements.size() < 3) continue;
    seed->primaries.insert(range.elements[2].elements[2].text);
  }
  const auto lines = NodesAnswer((*answers)[1], seed->address);
  if (!lines.ok()) return;
  for (const ClusterLine& line : *lines) {
    if (line.flags.contains("myself")) seed->announced = line.address;
  }
}

Slots ServedIn(const redis::ClusterView& view) {
  Slots served;
  for (const Shard& shard : ShardsOf(view)) served |= shard.slots;
  return served;
}

// `served` becomes the slots that are served, according to this node.
void CheckNode(const CheckTarget& target, absl::Duration longest, NodeFacts* node, Slots* served) {
  node->facts.server = target.url.DebugString();
  const base::Instant deadline =
      base::Now() + target.url.connect_timeout + target.url.command_timeout;
  auto connection = PlainConnection::Open(target.url, deadline);
  node->reached = connection.status();
  if (!connection.ok()) return;
  const Command questions[] = {Command{"CLUSTER", "INFO"}, Command{"CLUSTER", "NODES"},
                               Command{"CLUSTER", "SLOTS"}};
  const auto answers = connection->CallAll(questions, deadline);
  node->reached = answers.status();
  if (!answers.ok()) return;
  const auto view = redis::ReadView((*answers)[2], (*answers)[0], {});
  if (view.ok()) *served = ServedIn(*view);
  node->state = InfoAnswer((*answers)[0]);
  node->nodes = NodesAnswer((*answers)[1], node->address);
  node->reached = Gather(target, base::Now() + longest, &node->facts);
}

}  // namespace

absl::Status GatherCluster(const redis::Url& url, const std::string& url_text,
                           const std::string& prefix, absl::Duration longest, ClusterFacts* facts) {
  facts->server = url.DebugString();
  if (absl::Status bad = internal::CheckMainKey(prefix + "redlatch-doctor:0"); !bad.ok())
    return bad;
  const absl::StatusOr<redis::ClusterView> view = FindCluster(url, url.nodes);
  if (!view.ok()) return view.status();
  facts->seeds.resize(url.nodes.size());
  ForEach(url.nodes.size(), kAtOnce,
          [&](size_t i) { AskSeed(url, url.nodes[i], &facts->seeds[i]); });

  const std::vector<Shard> shards = ShardsOf(*view);
  std::vector<CheckTarget> targets;
  const auto add = [&](const redis::HostAndPort& node, const Shard& shard, Place place) {
    targets.push_back({.url = redis::UrlOfNode(url, node),
                       .url_text = url_text,
                       .prefix = prefix,
                       .place = place,
                       .shard = &shard});
    const bool is_replica = place == Place::kReplica;
    NodeFacts one;
    one.address = node.text();
    one.is_replica = is_replica;
    if (!is_replica) one.slots = RangesOf(shard.slots);
    facts->nodes.push_back(std::move(one));
  };
  for (const Shard& shard : shards) {
    add(shard.primary, shard, Place::kPrimary);
  }
  for (const Shard& shard : shards) {
    for (const redis::HostAndPort& replica : shard.replicas) add(replica, shard, Place::kReplica);
  }
  std::vector<Slots> served(targets.size(), ServedIn(*view));
  ForEach(targets.size(), kAtOnce,
          [&](size_t i) { CheckNode(targets[i], longest, &facts->nodes[i], &served[i]); });
  Slots unserved;
  for (const Slots& each : served) unserved |= ~each;
  facts->unserved = unserved.count();
  facts->unserved_slots = RangesOf(unserved);
  return absl::OkStatus();
}

absl::Status GatherQuorum(const redis::Url& url, const std::string& url_text,
                          const std::string& prefix, absl::Duration longest, QuorumFacts* facts) {
  facts->server = url.DebugString();
  facts->restart_delay = url.restart_delay;
  const std::vector<std::string> texts = redis::MembersOf(url_text);
  std::vector<CheckTarget> targets;
  for (size_t i = 0; i < url.members.size(); ++i) {
    const redis::Url& member = url.members[i];
    if (member.kind == redis::Url::Kind::kCluster) {
      return absl::InvalidArgumentError(
          absl::StrCat("redlatch doctor does not check a cluster that is a server of a quorum; "
                       "check each cluster by itself: --server ",
                       member.DebugString()));
    }
    NodeFacts node;
    node.address = member.DebugString();
    facts->nodes.push_back(std::move(node));
    targets.push_back({.url = member, .url_text = texts[i], .prefix = prefix, .of_quorum = true});
  }
  const base::Instant deadline = base::Now() + longest;
  ForEach(targets.size(), targets.size(), [&](size_t i) {
    NodeFacts& node = facts->nodes[i];
    node.reached = Gather(targets[i], deadline, &node.facts);
  });
  absl::Status failure = absl::OkStatus();
  for (const NodeFacts& node : facts->nodes) {
    if (node.reached.ok()) return absl::OkStatus();
    if (absl::IsInvalidArgument(node.reached)) return node.reached;
    if (failure.ok() || absl::IsUnavailable(failure)) failure = node.reached;
  }
  return failure;
}

}  // namespace redlatch::cli
