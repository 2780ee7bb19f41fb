#include <array>
#include <bitset>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/election.h"
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

constexpr absl::Duration kAnswerTimeout = absl::Seconds(2);
constexpr absl::Duration kMeasuring = absl::Milliseconds(500);
constexpr size_t kMostPings = 500;
constexpr size_t kMostMessages = 20;
constexpr int64_t kMostConnectionsListed = 5000;

// The probes. "+" marks a command that creates the key, with a TTL; "~" one that would create a key
// without a TTL if there were none; "?" one that locks do not need. $k, $q, $r and $c are the key,
// its queue, its readers and the channel; '' is an empty word.
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

std::string Refusal(const Reply& reply) {
  return reply.is_error() ? reply.text : "an answer of an unknown form";
}

void TakePairs(const Reply& reply, Facts& facts) {
  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    facts.texts.emplace(absl::AsciiStrToLower(reply.elements[i].text), reply.elements[i + 1].text);
  }
}

// How far the server's clock jumped between two readings, beyond what their round trips and a busy
// scheduler can explain. Negative: it jumped back.
absl::Duration Step(const ClockReading& earlier, const ClockReading& later) {
  const absl::Duration passed = later.server - earlier.server;
  const absl::Duration least = later.sent - earlier.received;
  const absl::Duration most = later.received - earlier.sent;
  const absl::Duration slack = absl::Milliseconds(5) + most / 100;
  if (passed < least - slack) return passed - least;
  return passed > most + slack ? passed - most : absl::ZeroDuration();
}

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

std::string_view ProbeOutcome(const Reply& reply) {
  if (!reply.is_error()) return kAllowed;
  if (absl::StartsWith(reply.text, "ERR unknown command") ||
      absl::StartsWith(reply.text, "ERR unknown subcommand")) {
    return "unknown";
  }
  if (redis::ClassifyError(reply.text) != redis::ErrorCode::kNoPermission) return kAllowed;
  // The wording of Redis 7.0, then that of later versions and of Valkey.
  if (absl::StrContains(reply.text, "to access one of the channels") ||
      absl::EndsWith(reply.text, " channel")) {
    return "channel";
  }
  return absl::StrContains(reply.text, "to access ") ? "key" : "command";
}

// ---- Reading replies of Redis.

void TakeInfo(const Reply& reply, Facts& facts) {
  if (reply.type == Type::kString) {
    facts.Set("info", 1).Read(reply.text, '\n', ':');
    // Valkey calls the mode "server_mode".
    if (facts.has("server_mode")) facts.Set("redis_mode", facts.text("server_mode"));
    return;
  }
  facts.Set("info_why", Refusal(reply));
  facts.Flag("info_renamed", absl::StrContains(reply.text, "unknown command"));
}

void TakeConfig(const Reply& reply, Facts& facts) {
  if (reply.is_error()) {
    const std::string_view outcome = ProbeOutcome(reply);
    facts.Flag("config_denied", outcome == "command").Flag("config_unknown", outcome == "unknown");
  }
  if (!reply.is_array() || reply.elements.empty()) return;
  facts.Set("config", 1);
  TakePairs(reply, facts);
}

void TakeScript(const std::string& command, const Reply& reply, Facts& facts) {
  const redis::ErrorCode code = redis::ClassifyError(reply.text);
  // All others are reported elsewhere, or pass.
  const bool refused =
      code == redis::ErrorCode::kOther || code == redis::ErrorCode::kUnknownCommand;
  if (!reply.is_error() || !refused) return;
  const std::string why = reply.text.substr(0, reply.text.find(" script: "));  // without the place
  if (!command.empty()) {
    facts.lists["InScripts"].push_back(Facts().Set("command", command).Set("why", why));
    return;
  }
  facts.Set("no_lua", why)
      .Flag("lua_module", absl::StrContains(why, "Could not find scripting engine"))
      .Flag("lua_option", absl::StrContains(why, "Lua scripting support disabled"));
}

void TakeDelays(const std::string& name, const Reply& reply, absl::Time now, Facts& facts) {
  if (!reply.is_array()) return;
  std::string what;
  absl::Duration longest;
  absl::Duration ago;
  for (const Reply& delay : reply.elements) {
    const std::vector<Reply>& entry = delay.elements;
    if (entry.size() < 4) continue;
    // SLOWLOG: id, time, µs, words; LATENCY: event, time, latest ms, longest ms.
    const bool is_command = entry[3].is_array();
    const absl::Duration took =
        is_command ? absl::Microseconds(entry[2].integer) : absl::Milliseconds(entry[3].integer);
    const absl::Duration age = now - absl::FromUnixSeconds(entry[1].integer);
    if (age >= absl::Hours(24) || took <= longest) continue;
    const std::vector<Reply>& words = is_command ? entry[3].elements : entry;
    what = words.empty() ? "" : words[0].text;
    longest = took;
    ago = age;
  }
  facts.Set(name, what)
      .Set(name + "_ms", absl::ToDoubleMilliseconds(longest))
      .Set(name + "_took", ShortTime(longest))
      .Set(name + "_ago", ShortTime(ago))
      .Flag(name + "_empty", reply.elements.empty());
}

void TakeSubscribers(const Reply& reply, Facts& facts) {
  if (reply.type != Type::kString) {
    facts.Set("backlog_why", Refusal(reply));
    return;
  }
  constexpr double kSmallBuffer = 1048576;
  int64_t all = 0;
  int64_t late = 0;
  Facts worst;
  for (const absl::string_view line : absl::StrSplit(reply.text, '\n', absl::SkipWhitespace())) {
    const Facts client = Facts().Read(line, ' ', '=');
    ++all;
    if (client.n("omem") < kSmallBuffer) continue;
    ++late;
    if (client.n("omem") > worst.n("omem")) worst = client;
  }
  const std::string name = worst.text("name");
  facts.Set("connected", all)
      .Set("late", late)
      .Set("bytes", worst.text("omem"))
      .Set("latest", absl::StrCat(worst.text("addr"), name.empty() ? "" : " (" + name + ")"));
}

void TakeRecord(const Reply& reply, Facts& facts) {
  facts.Flag("forbidden", reply.is_error() &&
                              redis::ClassifyError(reply.text) == redis::ErrorCode::kNoPermission);
  const std::vector<std::string> words = absl::StrSplit(reply.text, ' ');
  int64_t until_ms = 0;
  int64_t length_ms = 0;
  if (words.size() == 3 && absl::SimpleAtoi(words[1], &until_ms) &&
      absl::SimpleAtoi(words[2], &length_ms)) {
    facts.Set("until_ms", until_ms).Set("theirs_ms", length_ms);
  }
}

absl::StatusOr<absl::Time> TimeAnswer(const Reply& reply) {
  const int64_t micros = MicrosIn(reply);
  if (micros == 0) return absl::FailedPreconditionError(Refusal(reply));
  return absl::FromUnixMicros(micros);
}

void SetPings(const std::vector<absl::Duration>& times, Facts& facts) {
  if (times.empty()) return;
  const Spread spread = SpreadOf(times);
  facts.Set("ping_ms", absl::ToDoubleMilliseconds(spread.worst))
      .Set("p99_ms", absl::ToDoubleMilliseconds(spread.p99))
      .Set("figures",
           absl::StrCat("p50 ", ShortTime(spread.p50), ", p99 ", ShortTime(spread.p99), ", worst ",
                        ShortTime(spread.worst), " of ", times.size(), " PINGs"));
}

void SetClock(const std::vector<ClockReading>& readings, Facts& facts) {
  if (readings.empty()) return;
  const ClockReading& first = readings.front();
  const ClockReading& last = readings.back();
  facts.Set("ahead_us",
            absl::ToInt64Microseconds(last.server - last.here + (last.received - last.sent) / 2));
  if (readings.size() < 2) return;
  absl::Duration step = Step(first, last);
  for (size_t i = readings.size() - 1; i > 0; --i) {
    const absl::Duration here = Step(readings[i - 1], readings[i]);
    if (absl::AbsDuration(here) >= absl::AbsDuration(step)) step = here;
  }
  const absl::Duration skew = last.server - last.here;
  facts.Set("step", absl::ToDoubleSeconds(step))
      .Set("jump", ShortTime(absl::AbsDuration(step)))
      .Set("way", step > absl::ZeroDuration() ? "ahead" : "back")
      .Set("watched", ShortTime(last.received - first.sent))
      .Flag("skewed", absl::AbsDuration(skew) > absl::Seconds(1))
      .Set("skew", ShortTime(absl::AbsDuration(skew)))
      .Set("side", skew > absl::ZeroDuration() ? "ahead of" : "behind");
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

absl::Status MeasurePairs(RedisLockBase& lock, base::Instant deadline, Facts& facts) {
  std::vector<absl::Duration> times;
  for (int i = 0; i < kPairs && base::Now() < deadline; ++i) {
    const base::Instant begun = base::Now();
    absl::StatusOr<Lease> lease = lock.Acquire(kTrial);
    if (!lease.ok()) return lease.status();
    if (absl::Status released = lease->Release(); !released.ok()) return released;
    times.push_back(base::Now() - begun);
    const Spread spread = SpreadOf(times);
    facts.Set("pair_ms", absl::ToDoubleMilliseconds(spread.worst))
        .Set("pair", ShortTime(spread.p50))
        .Set("pair_worst", ShortTime(spread.worst));
  }
  return absl::OkStatus();
}

// A kind of lock, and what came of taking and releasing one.
using Trial = std::pair<std::string, absl::Status>;

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

class Gatherer {
 public:
  Gatherer(const CheckTarget& target, base::Instant deadline, Facts* facts)
      : url_(target.url),
        url_text_(target.url_text),
        shard_(target.shard),
        is_replica_(target.is_replica),
        of_quorum_(target.of_quorum),
        random_(absl::StrCat(absl::Hex(base::RandomBits(), absl::kZeroPad16))),
        name_(Here(absl::StrCat(target.prefix, "redlatch-doctor:", random_))),
        channel_(absl::StrCat("redlatch:", TagHere(), "doctor:", random_)),
        deadline_(deadline),
        facts_(*facts) {
    const absl::Duration wanted = of_quorum_ ? url_.restart_delay : url_.quarantine;
    facts_.Set("user", url_.user.empty() ? "default" : url_.user)
        .Set("prefix", target.prefix)
        .Set("now_ms", absl::ToUnixMillis(absl::Now()))
        .Set("wanted_ms", absl::ToInt64Milliseconds(wanted))
        .Flag("is_primary", shard_ != nullptr && !is_replica_)
        .Flag("is_replica", is_replica_)
        .Flag("in_cluster", shard_ != nullptr)
        .Flag("of_quorum", of_quorum_)
        .Flag("elsewhere", shard_ != nullptr && !shard_->Has(name_))
        .Flag("over_network", url_.kind == redis::Url::Kind::kTcp && url_.host != "localhost" &&
                                  url_.host != "::1" && !absl::StartsWith(url_.host, "127."))
        .Flag("eviction_allowed", url_.allow_eviction)
        .Flag("has_password", !url_.password.empty());
  }

  absl::Status Run() {
    if (absl::Status bad = internal::CheckMainKey(name_); !bad.ok()) return bad;
    const bool embedded = url_.kind == redis::Url::Kind::kEmbedded;
    const auto running = embedded ? redis::FindEmbeddedServer(url_.path) : std::nullopt;
    auto opened = PlainConnection::Open(url_, Soon());
    if (!opened.ok()) return opened.status();
    connection_ = &*opened;
    if (const auto until = connection_->certificate_until()) {
      facts_.Set("certificate_until", absl::ToUnixSeconds(*until));
    }
    if (url_.sentinels != nullptr) AskSentinels();
    absl::Status done = AskAll();
    if (embedded) {
      const auto server = static_cast<pid_t>(facts_.n("process_id"));
      const auto keeper = ReadProcess(server).value_or(Process()).parent;
      facts_.Set("embedded", 1)
          .Set("begun", running.ok() && running->has_value() ? "running" : "started just now")
          .Set("directory", redis::EmbeddedDirectory(url_.path).value_or(url_.path))
          .Set("server", server)
          .Set("keeper", keeper > 1 ? keeper : 0);  // 1: it has died, and init adopted the server
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
        &G::AskServer,  &G::AskForRecords, &G::AskForSubscribers, &G::AskForTime,   &G::Probe,
        &G::RunScripts, &G::Ping,          &G::AskForTime,        &G::SendMessages, &G::AskReplicas,
        &G::Try,        &G::AskForTime};
    for (const auto step : is_replica_ ? of_replica : of_primary) {
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
    const absl::Time now = TimeAnswer((*replies)[4]).value_or(absl::Now());
    TakeInfo((*replies)[0], facts_);
    TakeConfig((*replies)[1], facts_);
    TakeDelays("slow", (*replies)[2], now, facts_);
    TakeDelays("stall", (*replies)[3], now, facts_);
    return absl::OkStatus();
  }

  absl::Status AskForRecords() {
    const std::string key =
        of_quorum_ ? internal::QuorumKey({}) : internal::PrimaryEpochKey(TagHere());
    const auto reply = Ask(Command{"GET", key});
    if (reply.ok()) TakeRecord(*reply, facts_);
    return reply.status();
  }

  absl::Status AskForSubscribers() {
    if (facts_.n("connected_clients") > kMostConnectionsListed) {
      facts_.Set("backlog_why", "with so many connections it would block the server for too long");
      return absl::OkStatus();
    }
    const auto reply = Ask(Command{"CLIENT", "LIST", "TYPE", "pubsub"});
    if (reply.ok()) TakeSubscribers(*reply, facts_);
    return reply.status();
  }

  absl::Status AskForTime() {
    const base::Instant sent = base::Now();
    const auto reply = Ask(Command{"TIME"});
    if (!reply.ok()) return reply.status();
    if (const auto server = TimeAnswer(*reply); server.ok()) {
      clock_.push_back({.sent = sent - base::Instant(),
                        .received = base::Now() - base::Instant(),
                        .server = *server,
                        .here = absl::Now()});
      SetClock(clock_, facts_);
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
    const bool made = std::ranges::any_of(first, [&](const ProbeWords& probe) {
      return facts_.text(absl::StrCat(kProbe, probe.command)) == kAllowed;
    });
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
    facts_.Set(absl::StrCat(optional ? kOptionalProbe : kProbe, command),
               std::string(ProbeOutcome(reply)));
  }

  // Tests which commands a script may call. Some servers and services permit fewer than outside.
  absl::Status RunScripts() {
    const std::string s = shard_ == nullptr ? "" : "s";
    const std::string counts = shard_ == nullptr ? "numsub" : "shardnumsub";
    // The command, how it is called, and the probe that must be allowed for this to be news.
    const std::array<std::string, 3> scripts[] = {
        {"", "", "eval"},
        {"TIME", "redis.call('time')", "time"},
        {"PUBSUB", "redis.call('pubsub', '" + counts + "', ARGV[1])", "pubsub|" + counts},
        {"PUBLISH", "redis.call('" + s + "publish', ARGV[1], '')", s + "publish"},
        {"INFO", "redis.call('info', 'server')", ""}};
    std::vector<std::string> called;
    for (const auto& [command, call, probe] : scripts) {
      const bool news =
          probe.empty() ? facts_.has("info") : facts_.text(absl::StrCat(kProbe, probe)) == kAllowed;
      if (!news || facts_.has("no_lua") || facts_.has("elsewhere")) continue;
      const auto reply = Ask(Command{"EVAL", call + " return 1", "1", name_, channel_});
      if (!reply.ok()) return reply.status();
      TakeScript(command, *reply, facts_);
      if (!command.empty() && !reply->is_error()) called.push_back(command);
    }
    if (!called.empty() && !facts_.lists.contains("InScripts")) {
      facts_.Set("called", absl::StrJoin(called, ", "));
    }
    if (!facts_.has("dragonfly_version")) return absl::OkStatus();
    const auto flags = Ask(Command{"CONFIG", "GET", "default_lua_flags"});
    if (flags.ok()) TakePairs(*flags, facts_);
    return flags.status();
  }

  absl::Status Ping() {
    const base::Instant until = base::Now() + kMeasuring;
    std::vector<absl::Duration> times;
    while (times.size() < kMostPings && base::Now() < until) {
      const base::Instant sent = base::Now();
      const auto reply = Ask(Command{"PING"});
      if (!reply.ok()) return reply.status();
      if (reply->is_error()) break;
      times.push_back(base::Now() - sent);
    }
    SetPings(times, facts_);
    return absl::OkStatus();
  }

  // Tests whether a message from one connection reaches another. At a node of a cluster it uses a
  // sharded channel.
  absl::Status SendMessages() {
    const std::string s = url_.in_cluster ? "s" : "";
    auto opened = PlainConnection::Open(url_, Soon());
    if (!opened.ok()) {
      facts_.Set("message_why", opened.status().message());
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
        facts_.Flag("silent", true);
        facts_.Set("message_why",
                   published->integer == 0
                       ? "this address leads to several servers: one connection subscribed, and "
                         "another that published found no subscriber"
                       : absl::StrCat("none came within ", absl::FormatDuration(kAnswerTimeout)));
        return absl::OkStatus();
      }
      times.push_back(base::Now() - sent);
    }
    facts_.Set("message_took", ShortTime(SpreadOf(std::move(times)).p50));
    const auto left = listener.Call(Command{s + "unsubscribe", channel_}, Soon());
    if (left.ok()) AddProbe(s + "unsubscribe", *left);
    return left.status();
  }

  // Any other error, such as that a slot has just moved, says nothing about messages.
  absl::Status RefuseMessages(const Reply& reply) {
    const redis::ErrorCode code = redis::ClassifyError(reply.text);
    facts_.Set("message_why", reply.text)
        .Flag("message_denied",
              code == redis::ErrorCode::kNoPermission || code == redis::ErrorCode::kUnknownCommand);
    const auto sharded = Ask(Command{"SPUBLISH", channel_, ""});
    if (sharded.ok()) facts_.Flag("sharded", !sharded->is_error());
    return sharded.status();
  }

  absl::Status AskReplicas() {
    const std::string replicas = facts_.text("connected_slaves");
    if (facts_.n("connected_slaves") <= 0 || facts_.has("elsewhere")) return absl::OkStatus();
    const base::Instant sent = base::Now();
    const std::vector<Command> commands = {Command{"SET", name_, "0", "PX", "1000"},
                                           Command{"WAIT", replicas, "200"}, Command{"DEL", name_}};
    const auto replies = connection_->CallAll(commands, Soon());
    if (!replies.ok()) return replies.status();
    const absl::Duration took = base::Now() - sent;
    for (const Reply& reply : *replies) {
      if (!reply.is_error()) continue;
      facts_.Set("unconfirmed_why", reply.text)
          .Flag("wait_refused", &reply == &(*replies)[1] && ProbeOutcome(reply) != kAllowed);
      return absl::OkStatus();
    }
    facts_.Set("confirmed", (*replies)[1].integer).Set("confirmed_after", ShortTime(took));
    return absl::OkStatus();
  }

  void AskSentinels() {
    const std::string& primary = url_.sentinels->options().primary;
    for (const redis::HostAndPort& each : url_.sentinels->Known()) {
      Facts& view = facts_.lists["EachSentinel"].emplace_back().Set("address", each.text());
      auto sentinel = PlainConnection::Open(UrlOfSentinel(url_, each), Soon());
      if (!sentinel.ok()) {
        view.Set("why", sentinel.status().message());
        continue;
      }
      const auto reply = sentinel->Call(Command{"SENTINEL", "MASTER", primary}, Soon());
      if (!reply.ok() || !reply->is_array()) {
        view.Set("why", reply.ok() ? Refusal(*reply) : std::string(reply.status().message()));
      } else {
        TakePairs(*reply, view);
      }
    }
  }

  // False if redlatch does not accept the server, or the user lacks a permission. A trial would
  // stop halfway and leave something behind.
  bool WorthATrial() const {
    static const std::set<std::string> checks = {"mode", "role", "permissions", "Lua", "eviction"};
    return !facts_.has("elsewhere") &&
           std::ranges::none_of(Diagnose(facts_), [](const Finding& finding) {
             return finding.level == Level::kBad && checks.contains(finding.check);
           });
  }

  absl::Status Try() {
    if (!WorthATrial()) return absl::OkStatus();
    std::vector<std::string> names;
    std::vector<Command> deletions;
    for (const std::string_view kind : kinds::kAll) {
      names.push_back(Here(absl::StrCat(name_, ":", std::string(kind))));
      deletions.push_back(DeleteLock(names.back()));
    }
    const base::Instant end = deadline_ - 2 * kAnswerTimeout;
    const std::string url = of_quorum_ ? redis::AsQuorum(Without("restart_delay=", url_text_))
                                       : Without("quarantine=", url_text_);
    // The doctor itself reports what the client would warn of.
    const absl::StatusOr<Client> client = Client::Connect(
        url, {.unreachable_after = kTrialTimeout, .on_warning = [](std::string_view) {}});
    if (!client.ok()) facts_.Set("library", client.status().message());
    std::vector<Trial> trials;
    if (client.ok() && of_quorum_) {
      RedLock lock(*client, names.back());
      absl::Status outcome = TryLock(lock);
      if (outcome.ok()) outcome = MeasurePairs(lock, end, facts_);
      trials.emplace_back(kinds::kQuorum, outcome);
    } else if (client.ok()) {
      trials = TryAll(*client, names, end);
    }
    SetTrials(trials);
    return connection_->CallAll(deletions, Soon()).status();
  }

  // Takes and releases each kind of lock. The outcome of a kind that was not tried is kCancelled.
  std::vector<Trial> TryAll(const Client& client, const std::vector<std::string>& names,
                            base::Instant end) {
    SimpleLock simple(client, names[0]);
    ReentrantLock reentrant(client, names[1]);
    ReentrantReadWriteLock read_write(client, names[2]);
    Semaphore semaphore(client, names[3], 2);
    CountDownLatch latch(client, names[4], 1, {.ttl = kTrialLease});
    Election election(client, names[5]);
    const std::function<absl::Status()> tries[] = {
        // in the order of kinds::kAll, without the quorum's kind
        [&] { return TryLock(simple); },          [&] { return TryLock(reentrant); },
        [&] { return TryReadWrite(read_write); }, [&] { return TrySemaphore(semaphore); },
        [&] { return TryLatch(latch); },          [&] { return TryLock(election); }};
    std::vector<Trial> trials;
    bool goes_on = true;
    for (size_t i = 0; i < std::size(tries); ++i) {
      goes_on = goes_on && base::Now() < end;
      const absl::Status outcome = goes_on ? tries[i]() : absl::CancelledError("not tried");
      goes_on = goes_on && !absl::IsUnavailable(outcome);
      trials.emplace_back(kinds::kAll[i], outcome);
      std::ranges::replace(trials.back().first, '_', '-');  // "read-write", as people write it
    }
    if (!goes_on) return trials;
    // This starts only now because the first trial also had to load its scripts.
    const absl::Status measured = MeasurePairs(simple, end, facts_);
    if (!measured.ok()) trials[0].second = measured;
    return trials;
  }

  // Sets an item for each lock that does not work, one for those that were not tried, and one for
  // those that work.
  void SetTrials(const std::vector<Trial>& trials) {
    std::vector<Facts>& items = facts_.lists["Trials"];
    Facts all;
    for (const auto& [kind, outcome] : trials) {
      facts_.Flag("tried", true);
      if (outcome.ok() || absl::IsCancelled(outcome)) {
        const std::string state = outcome.ok() ? "working" : "untried";
        all.Set(state, all.has(state) ? absl::StrCat(all.text(state), ", ", kind) : kind);
      } else {
        items.push_back(Facts().Set("failed", kind).Set("why", outcome.message()));
      }
    }
    for (const auto& [state, listed] : all.texts) items.push_back(Facts().Set(state, listed));
  }

  const redis::Url& url_;
  const std::string& url_text_;
  const Shard* const shard_;
  const bool is_replica_;
  const bool of_quorum_;
  const std::string random_;
  const std::string name_;
  const std::string channel_;
  const base::Instant deadline_;
  Facts& facts_;
  std::vector<ClockReading> clock_;
  PlainConnection* connection_ = nullptr;
};

}  // namespace

absl::Status Gather(const CheckTarget& target, base::Instant deadline, Facts* facts) {
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

absl::StatusOr<std::vector<ClusterLine>> NodesAnswer(const Reply& reply, const std::string& node) {
  if (reply.is_error()) return redis::ErrorStatus(reply.text, node);
  return ReadClusterNodes(reply.text);
}

// Asks a node for CLUSTER SLOTS, NODES and INFO.
absl::StatusOr<std::vector<Reply>> AskAboutCluster(const redis::Url& url) {
  const base::Instant deadline = base::Now() + url.connect_timeout + url.command_timeout;
  auto connection = PlainConnection::Open(url, deadline);
  if (!connection.ok()) return connection.status();
  const Command questions[] = {Command{"CLUSTER", "SLOTS"}, Command{"CLUSTER", "NODES"},
                               Command{"CLUSTER", "INFO"}};
  return connection->CallAll(questions, deadline);
}

Facts AskSeed(const redis::Url& url, const redis::HostAndPort& node) {
  Facts seed = Facts().Set("address", node.text());
  const auto answers = AskAboutCluster(redis::UrlOfNode(url, node));
  if (!answers.ok()) return seed.Set("why", answers.status().message());
  if ((*answers)[0].is_error()) {
    return seed.Set("why", redis::ErrorStatus((*answers)[0].text, node.text()).message());
  }
  std::set<std::string> primaries;
  for (const Reply& range : (*answers)[0].elements) {
    if (range.elements.size() < 3 || range.elements[2].elements.size() < 3) continue;
    primaries.insert(range.elements[2].elements[2].text);
  }
  seed.Set("knows", absl::StrJoin(primaries, ","));
  const auto lines = NodesAnswer((*answers)[1], node.text());
  for (const ClusterLine& line : lines.value_or(std::vector<ClusterLine>())) {
    if (line.flags.contains("myself")) seed.Set("announced", line.address);
  }
  return seed;
}

Slots ServedIn(const redis::ClusterView& view) {
  Slots served;
  for (const Shard& shard : ShardsOf(view)) served |= shard.slots;
  return served;
}

// `served` becomes the slots that are served, according to this node.
void CheckNode(const CheckTarget& target, absl::Duration longest, NodeFacts* node, Slots* served) {
  const auto answers = AskAboutCluster(target.url);
  node->reached = answers.status();
  if (!answers.ok()) return;
  const auto view = redis::ReadView((*answers)[0], (*answers)[2], {});
  if (view.ok()) *served = ServedIn(*view);
  const std::string_view state = redis::InfoField((*answers)[2].text, "cluster_state");
  if (!state.empty()) node->facts.Set("cluster_state", std::string(state));
  node->nodes = NodesAnswer((*answers)[1], node->address);
  node->reached = Gather(target, base::Now() + longest, &node->facts);
}

absl::StatusOr<GroupFacts> GatherCluster(const redis::Url& url, const std::string& url_text,
                                         const std::string& prefix, absl::Duration longest) {
  GroupFacts facts;
  if (absl::Status bad = internal::CheckMainKey(prefix + "redlatch-doctor:0"); !bad.ok())
    return bad;
  const absl::StatusOr<redis::ClusterView> view = FindCluster(url, url.nodes);
  if (!view.ok()) return view.status();
  facts.seeds.resize(url.nodes.size());
  ForEach(url.nodes.size(), kAtOnce,
          [&](size_t i) { facts.seeds[i] = AskSeed(url, url.nodes[i]); });

  const std::vector<Shard> shards = ShardsOf(*view);
  std::vector<CheckTarget> targets;
  const auto add = [&](const redis::HostAndPort& node, const Shard& shard, bool is_replica) {
    targets.push_back({.url = redis::UrlOfNode(url, node),
                       .url_text = url_text,
                       .prefix = prefix,
                       .shard = &shard,
                       .is_replica = is_replica});
    facts.nodes.push_back({.address = node.text(), .is_replica = is_replica});
    facts.nodes.back().facts.Set("slots", RangesOf(shard.slots));
  };
  for (const Shard& shard : shards) add(shard.primary, shard, false);
  for (const Shard& shard : shards) {
    for (const redis::HostAndPort& replica : shard.replicas) add(replica, shard, true);
  }
  std::vector<Slots> served(targets.size(), ServedIn(*view));
  ForEach(targets.size(), kAtOnce,
          [&](size_t i) { CheckNode(targets[i], longest, &facts.nodes[i], &served[i]); });
  Slots unserved;  // according to at least one node
  for (const Slots& each : served) unserved |= ~each;
  facts.whole.Set("unserved", unserved.count()).Set("slots", RangesOf(unserved));
  return facts;
}

absl::StatusOr<GroupFacts> GatherQuorum(const redis::Url& url, const std::string& url_text,
                                        const std::string& prefix, absl::Duration longest) {
  GroupFacts facts;
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
    facts.nodes.push_back({.address = member.DebugString()});
    targets.push_back({.url = member, .url_text = texts[i], .prefix = prefix, .of_quorum = true});
  }
  const base::Instant deadline = base::Now() + longest;
  ForEach(targets.size(), targets.size(), [&](size_t i) {
    NodeFacts& node = facts.nodes[i];
    node.reached = Gather(targets[i], deadline, &node.facts);
  });
  absl::Status failure = absl::OkStatus();
  for (const NodeFacts& node : facts.nodes) {
    if (node.reached.ok()) return facts;
    if (absl::IsInvalidArgument(node.reached)) return node.reached;
    if (failure.ok() || absl::IsUnavailable(failure)) failure = node.reached;
  }
  return failure;
}

}  // namespace

absl::StatusOr<GroupFacts> GatherGroup(const redis::Url& url, const std::string& url_text,
                                       const std::string& prefix, absl::Duration longest) {
  const bool is_quorum = url.kind == redis::Url::Kind::kQuorum;
  return (is_quorum ? GatherQuorum : GatherCluster)(url, url_text, prefix, longest);
}

}  // namespace redlatch::cli
