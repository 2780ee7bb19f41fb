#include "src/cli/doctor/gather.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/random.h"
#include "src/cli/doctor/answers.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/doctor/embedded.h"
#include "src/cli/doctor/message_trial.h"
#include "src/cli/doctor/probes.h"
#include "src/cli/doctor/trial.h"
#include "src/cli/look/lock_keys.h"
#include "src/cli/term/measures.h"
#include "src/engine/protocol/key_set.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/connect/sentinel_questions.h"
#include "src/redis/url/sentinels.h"

namespace redlatch::cli {
namespace {

using redis::Command;
using redis::PlainConnection;
using redis::Reply;

constexpr absl::Duration kAnswerPatience = absl::Seconds(2);  // with one answer
constexpr absl::Duration kPinging = absl::Milliseconds(500);
constexpr size_t kMostPings = 500;
constexpr int64_t kMostListed = 5000;  // connections
constexpr char kWaitMillis[] = "200";

class Gatherer {
 public:
  Gatherer(const Patient& patient, base::Instant deadline, DoctorFacts* facts)
      : url_(patient.url),
        url_text_(patient.url_text),
        shard_(patient.shard),
        random_(absl::StrCat(absl::Hex(base::RandomBits(), absl::kZeroPad16))),
        name_(Here(absl::StrCat(patient.prefix, "redlatch-doctor:", random_))),
        channel_(absl::StrCat("redlatch:", TagHere(), "doctor:", random_)),
        deadline_(deadline),
        facts_(*facts) {
    facts_.server = url_.DebugString();
    facts_.place = patient.place;
    facts_.locks_elsewhere = shard_ != nullptr && !shard_->Has(name_);
    facts_.prefix = patient.prefix;
    facts_.over_network = url_.kind == redis::Url::Kind::kTcp && url_.host != "localhost" &&
                          url_.host != "::1" && !url_.host.starts_with("127.");
    facts_.eviction_allowed = url_.allow_eviction;
    facts_.quarantine = url_.quarantine;
    facts_.of_quorum = patient.of_quorum;
    facts_.restart_delay = url_.restart_delay;
    facts_.looked_at = absl::Now();
    facts_.has_password = !url_.password.empty();
    if (!url_.user.empty()) facts_.user = url_.user;
  }

  absl::Status Run() {
    if (absl::Status bad = engine::CheckMainKey(name_); !bad.ok()) return bad;
    EmbeddedLook embedded(url_);
    auto opened = PlainConnection::Open(url_, Soon());
    if (!opened.ok()) return opened.status();
    PlainConnection connection = *std::move(opened);
    facts_.certificate_until = connection.certificate_until();
    if (url_.sentinels != nullptr) AskSentinels();
    absl::Status done =
        facts_.place == Place::kReplica ? LookAtReplica(connection) : LookAtPrimary(connection);
    facts_.embedded = embedded.Facts(facts_.info);
    return done;
  }

 private:
  base::Instant Soon() const { return std::min(deadline_, base::Now() + kAnswerPatience); }

  // The same, or with something behind it that makes it one of this shard, if there is such a name.
  std::string Here(const std::string& name) const {
    return shard_ == nullptr ? name : NameIn(*shard_, name).value_or(name);
  }
  // A hash tag of this shard, and a colon.
  std::string TagHere() const {
    if (shard_ == nullptr) return "";
    redis::Slot slot = 0;
    while (!shard_->slots.test(slot) && slot + 1 < redis::kSlots) ++slot;
    return redis::TagOf(slot) + ":";
  }

  using Step = absl::Status (Gatherer::*)(PlainConnection& connection);
  absl::Status Take(std::initializer_list<Step> steps, PlainConnection& connection) {
    for (const Step step : steps) {
      if (absl::Status done = (this->*step)(connection); !done.ok()) return done;
    }
    return absl::OkStatus();
  }
  absl::Status LookAtPrimary(PlainConnection& connection) {
    return Take({&Gatherer::AskServer, &Gatherer::AskForReign, &Gatherer::AskForSubscribers,
                 &Gatherer::AskForTime, &Gatherer::Probe, &Gatherer::Ping, &Gatherer::AskForTime,
                 &Gatherer::Send, &Gatherer::AskReplicas, &Gatherer::Try, &Gatherer::AskForTime},
                connection);
  }
  absl::Status LookAtReplica(PlainConnection& connection) {
    return Take({&Gatherer::AskServer, &Gatherer::AskForTime, &Gatherer::Probe, &Gatherer::Ping,
                 &Gatherer::AskForTime},
                connection);
  }

  absl::Status AskServer(PlainConnection& connection) {
    const std::vector<Command> commands = {
        Command{"INFO"},
        Command{"CONFIG", "GET", "save", "appendfsync", "stop-writes-on-bgsave-error",
                "min-replicas-to-write", "min-replicas-max-lag", "client-output-buffer-limit",
                "timeout", "tcp-keepalive", "busy-reply-threshold", "lua-time-limit",
                "repl-backlog-ttl", "maxmemory-clients", "notify-keyspace-events",
                "latency-monitor-threshold", "cluster-node-timeout",
                "cluster-require-full-coverage", "cluster-allow-pubsubshard-when-down"},
        Command{"SLOWLOG", "GET", "128"}, Command{"LATENCY", "LATEST"}, Command{"TIME"}};
    const auto replies = connection.CallAll(commands, Soon());
    if (!replies.ok()) return replies.status();
    facts_.info = InfoAnswer((*replies)[0]);
    facts_.config = ConfigAnswer((*replies)[1]);
    const absl::Time now = TimeAnswer((*replies)[4]).value_or(absl::Now());
    facts_.slow_commands = SlowLogAnswer((*replies)[2], now);
    facts_.latency_spikes = LatencyAnswer((*replies)[3], now);
    if (facts_.info.ok()) facts_.replicas = ReplicasIn(*facts_.info);
    return absl::OkStatus();
  }

  absl::Status AskForReign(PlainConnection& connection) {
    if (facts_.of_quorum) return AskForDelay(connection);
    const auto reply = connection.Call(Command{"GET", engine::ReignKey(TagHere())}, Soon());
    if (!reply.ok()) return reply.status();
    const Told<Holdback> reign = HoldbackAnswer(*reply);
    if (reign.ok()) facts_.reign = ReignFacts{.quarantine = reign->length, .until = reign->until};
    return absl::OkStatus();
  }

  absl::Status AskForDelay(PlainConnection& connection) {
    const auto reply = connection.Call(Command{"GET", engine::QuorumKey({})}, Soon());
    if (!reply.ok()) return reply.status();
    facts_.delay = HoldbackAnswer(*reply);
    return absl::OkStatus();
  }

  absl::Status AskForSubscribers(PlainConnection& connection) {
    if (NumberIn(facts_.info, "connected_clients").value_or(0) > kMostListed) {
      facts_.pubsub_backlogs = absl::FailedPreconditionError(
          "with so many connections it would keep the server for too long");
      return absl::OkStatus();
    }
    const auto reply = connection.Call(Command{"CLIENT", "LIST", "TYPE", "pubsub"}, Soon());
    if (!reply.ok()) return reply.status();
    facts_.pubsub_backlogs = ClientListAnswer(*reply);
    return absl::OkStatus();
  }

  absl::Status AskForTime(PlainConnection& connection) {
    const base::Instant sent = base::Now();
    const auto reply = connection.Call(Command{"TIME"}, Soon());
    if (!reply.ok()) return reply.status();
    const auto server = TimeAnswer(*reply);
    if (server.ok()) {
      facts_.clock.push_back({.sent = sent - base::Instant(),
                              .received = base::Now() - base::Instant(),
                              .server = *server,
                              .here = absl::Now()});
    }
    return absl::OkStatus();
  }

  absl::Status Probe(PlainConnection& connection) {
    std::vector<ProbeWords> first;
    std::vector<ProbeWords> others;
    for (ProbeWords& probe : ProbesOf(name_, channel_, shard_ != nullptr)) {
      (probe.makes_key ? first : others).push_back(std::move(probe));
    }
    if (absl::Status done = ProbeAll(connection, first); !done.ok()) return done;
    const bool made = std::any_of(
        facts_.probes.begin(), facts_.probes.end(),
        [](const CommandProbe& probe) { return probe.outcome == CommandProbe::Outcome::kAllowed; });
    if (!made) std::erase_if(others, [](const ProbeWords& probe) { return probe.needs_key; });
    return ProbeAll(connection, others);
  }

  absl::Status ProbeAll(PlainConnection& connection, const std::vector<ProbeWords>& probes) {
    std::vector<Command> commands;
    for (const ProbeWords& probe : probes) {
      const std::vector<std::string_view> words(probe.words.begin(), probe.words.end());
      commands.push_back(Command(words));
    }
    const auto replies = connection.CallAll(commands, Soon());
    if (!replies.ok()) return replies.status();
    for (size_t i = 0; i < probes.size(); ++i) {
      facts_.probes.push_back({.command = probes[i].command,
                               .outcome = ProbeOutcome((*replies)[i]),
                               .optional = probes[i].optional});
    }
    return absl::OkStatus();
  }

  absl::Status Ping(PlainConnection& connection) {
    const base::Instant until = base::Now() + kPinging;
    while (facts_.pings.size() < kMostPings && base::Now() < until) {
      const base::Instant sent = base::Now();
      const auto reply = connection.Call(Command{"PING"}, Soon());
      if (!reply.ok()) return reply.status();
      if (reply->is_error()) return absl::OkStatus();
      facts_.pings.push_back(base::Now() - sent);
    }
    return absl::OkStatus();
  }

  absl::Status Send(PlainConnection& connection) {
    return SendMessages(url_, channel_, connection, deadline_, &facts_);
  }

  absl::Status AskReplicas(PlainConnection& connection) {
    if (facts_.replicas.empty() || facts_.locks_elsewhere) return absl::OkStatus();
    const std::string replicas = absl::StrCat(facts_.replicas.size());
    const base::Instant sent = base::Now();
    const std::vector<Command> commands = {Command{"SET", name_, "0", "PX", "1000"},
                                           Command{"WAIT", replicas, kWaitMillis},
                                           Command{"DEL", name_}};
    const auto replies = connection.CallAll(commands, Soon());
    if (!replies.ok()) return replies.status();
    for (const Reply& reply : *replies) {
      if (reply.is_error()) {
        facts_.confirmation = absl::PermissionDeniedError(reply.text);
        return absl::OkStatus();
      }
    }
    facts_.confirmation =
        Confirmation{.replicas = (*replies)[1].integer, .took = base::Now() - sent};
    return absl::OkStatus();
  }

  void AskSentinels() {
    const std::string& primary = url_.sentinels->options().primary;
    for (const redis::HostAndPort& each : url_.sentinels->Known()) {
      SentinelView& view = facts_.sentinels.emplace_back(
          SentinelView{.address = each.text(), .names = {}, .master = Fields()});
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

  // What redlatch would say of a server that it does not take, or a user who lacks a permission, is
  // known without trying; and a trial that stops halfway leaves something behind.
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

  absl::Status Try(PlainConnection& connection) {
    if (!WorthATrial()) return absl::OkStatus();
    std::vector<std::string> names;
    std::vector<Command> deletions;
    for (const std::string_view kind : engine::kinds::kAll) {
      names.push_back(Here(absl::StrCat(name_, ":", std::string(kind))));
      deletions.push_back(DeleteLocks({names.back()}));
    }
    const auto try_all = facts_.of_quorum ? TryQuorum : TryLocks;
    try_all(url_text_, names, deadline_ - 2 * kAnswerPatience, &facts_);
    return connection.CallAll(deletions, Soon()).status();
  }

  const redis::Url& url_;
  const std::string& url_text_;
  const Shard* const shard_;
  const std::string random_;
  const std::string name_;
  const std::string channel_;
  const base::Instant deadline_;
  DoctorFacts& facts_;
};

}  // namespace

absl::Status Gather(const Patient& patient, base::Instant deadline, DoctorFacts* facts) {
  return Gatherer(patient, deadline, facts).Run();
}

}  // namespace redlatch::cli
