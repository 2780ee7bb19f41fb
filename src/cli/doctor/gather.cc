#include "src/cli/doctor/gather.h"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/cli/doctor/answers.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/doctor/probes.h"
#include "src/cli/look/lock_keys.h"
#include "src/cli/term/for_each.h"
#include "src/cli/term/measures.h"
#include "src/cli/term/shards.h"
#include "src/lock/key_set.h"
#include "src/lock/kinds.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/connect/sentinel_questions.h"
#include "src/redis/embedded/directory.h"
#include "src/redis/embedded/embedded.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/url/quorum_url.h"
#include "src/redis/url/sentinels.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

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
    if (absl::Status bad = internal::CheckMainKey(name_); !bad.ok()) return bad;
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
    const auto reply =
        connection.Call(Command{"GET", internal::PrimaryEpochKey(TagHere())}, Soon());
    if (!reply.ok()) return reply.status();
    const Told<Holdback> reign = HoldbackAnswer(*reply);
    if (reign.ok()) facts_.reign = ReignFacts{.quarantine = reign->length, .until = reign->until};
    return absl::OkStatus();
  }

  absl::Status AskForDelay(PlainConnection& connection) {
    const auto reply = connection.Call(Command{"GET", internal::QuorumKey({})}, Soon());
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
    for (const std::string_view kind : internal::kinds::kAll) {
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

namespace {

using redis::Command;
using redis::PlainConnection;
using redis::Reply;

// Nodes that are looked at together.
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

// `served`: those that somebody serves, as this node knows.
void LookAtNode(const Patient& patient, absl::Duration longest, NodeFacts* node, Slots* served) {
  node->facts.server = patient.url.DebugString();
  const base::Instant deadline =
      base::Now() + patient.url.connect_timeout + patient.url.command_timeout;
  auto connection = PlainConnection::Open(patient.url, deadline);
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
  node->reached = Gather(patient, base::Now() + longest, &node->facts);
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
  std::vector<Patient> patients;
  const auto add = [&](const redis::HostAndPort& node, const Shard& shard, Place place) {
    patients.push_back({.url = redis::UrlOfNode(url, node),
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
  std::vector<Slots> served(patients.size(), ServedIn(*view));
  ForEach(patients.size(), kAtOnce,
          [&](size_t i) { LookAtNode(patients[i], longest, &facts->nodes[i], &served[i]); });
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
  std::vector<Patient> patients;
  for (size_t i = 0; i < url.members.size(); ++i) {
    const redis::Url& member = url.members[i];
    if (member.kind == redis::Url::Kind::kCluster) {
      return absl::InvalidArgumentError(
          absl::StrCat("redlatch doctor does not look at a cluster that is a server of a quorum; "
                       "look at each by itself: --server ",
                       member.DebugString()));
    }
    NodeFacts node;
    node.address = member.DebugString();
    facts->nodes.push_back(std::move(node));
    patients.push_back({.url = member, .url_text = texts[i], .prefix = prefix, .of_quorum = true});
  }
  const base::Instant deadline = base::Now() + longest;
  ForEach(patients.size(), patients.size(), [&](size_t i) {
    NodeFacts& node = facts->nodes[i];
    node.reached = Gather(patients[i], deadline, &node.facts);
  });
  absl::Status failure = absl::OkStatus();
  for (const NodeFacts& node : facts->nodes) {
    if (node.reached.ok()) return absl::OkStatus();
    if (absl::IsInvalidArgument(node.reached)) return node.reached;
    if (failure.ok() || absl::IsUnavailable(failure)) failure = node.reached;
  }
  return failure;
}

namespace {

using redis::Command;
using redis::PlainConnection;
using redis::Reply;

constexpr absl::Duration kMessagePatience = absl::Seconds(2);  // with one answer
constexpr absl::Duration kSending = absl::Milliseconds(500);
constexpr size_t kMostMessages = 20;

struct Commands {
  std::string_view publish;
  std::string_view subscribe;
  std::string_view unsubscribe;
};
constexpr Commands kPlain = {"PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE"};
constexpr Commands kSharded = {"SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE"};

// Whatever else it is says nothing about messages, as that a slot has moved away meanwhile.
absl::Status RefusalOf(const Reply& reply) {
  const redis::ErrorCode code = redis::ClassifyError(reply.text);
  const bool refused =
      code == redis::ErrorCode::kNoPermission || code == redis::ErrorCode::kUnknownCommand;
  return refused ? absl::PermissionDeniedError(reply.text)
                 : absl::FailedPreconditionError(reply.text);
}

}  // namespace

absl::Status SendMessages(const redis::Url& url, const std::string& channel,
                          PlainConnection& speaker, base::Instant deadline, DoctorFacts* facts) {
  const auto soon = [&] { return std::min(deadline, base::Now() + kMessagePatience); };
  const Commands& say = url.in_cluster ? kSharded : kPlain;
  const auto probed = [&](std::string_view command, const Reply& reply) {
    facts->probes.push_back({.command = absl::AsciiStrToLower({command.data(), command.size()}),
                             .outcome = ProbeOutcome(reply)});
  };
  auto opened = PlainConnection::Open(url, soon());
  if (!opened.ok()) {
    facts->message = absl::FailedPreconditionError(opened.status().message());
    return absl::OkStatus();
  }
  PlainConnection listener = *std::move(opened);
  const auto subscribed = listener.Call(Command{say.subscribe, channel}, soon());
  if (!subscribed.ok()) return subscribed.status();
  probed(say.subscribe, *subscribed);
  if (subscribed->is_error()) {
    facts->message = RefusalOf(*subscribed);
    return absl::OkStatus();
  }
  std::vector<absl::Duration> times;
  const base::Instant until = base::Now() + kSending;
  while (times.empty() || (times.size() < kMostMessages && base::Now() < until)) {
    const base::Instant sent = base::Now();
    const auto published = speaker.Call(Command{say.publish, channel, "x"}, soon());
    if (!published.ok()) return published.status();
    if (published->is_error()) {
      facts->message = RefusalOf(*published);
      return absl::OkStatus();
    }
    if (!listener.Receive(soon()).ok()) {
      facts->message = absl::DeadlineExceededError(
          published->integer == 0
              ? std::string("this address leads to several servers: one connection subscribed, "
                            "and another that published found no subscriber")
              : absl::StrCat("none came within ", absl::FormatDuration(kMessagePatience)));
      return absl::OkStatus();
    }
    times.push_back(base::Now() - sent);
  }
  facts->message = SpreadOf(std::move(times)).p50;
  const auto left = listener.Call(Command{say.unsubscribe, channel}, soon());
  if (!left.ok()) return left.status();
  probed(say.unsubscribe, *left);
  return absl::OkStatus();
}

namespace {

namespace kinds = internal::kinds;

// How long one that could not be released stays.
constexpr absl::Duration kTrialLease = absl::Seconds(2);
constexpr absl::Duration kTrialPatience = absl::Seconds(1);
constexpr int kPairs = 20;

const AcquireOptions kOptions = {.wait = kTrialPatience, .lease = kTrialLease};

absl::Status ReleaseOf(absl::StatusOr<Lease> lease) {
  if (!lease.ok()) return lease.status();
  const absl::Status extended = lease->Extend(kTrialLease);
  const absl::Status released = lease->Release();
  return extended.ok() ? released : extended;
}

absl::Status TryLock(RedisLockBase& lock) {
  if (absl::Status released = ReleaseOf(lock.Acquire(kOptions)); !released.ok()) return released;
  return lock.Inspect().status();
}

absl::Status TryReadWrite(ReentrantReadWriteLock& lock) {
  if (absl::Status wrote = TryLock(lock); !wrote.ok()) return wrote;
  return ReleaseOf(lock.AcquireRead(kOptions));
}

absl::Status TrySemaphore(Semaphore& semaphore) {
  absl::StatusOr<Permit> permit = semaphore.Acquire(1, kOptions);
  if (!permit.ok()) return permit.status();
  if (absl::Status released = permit->Release(); !released.ok()) return released;
  return semaphore.Inspect().status();
}

absl::Status TryLatch(CountDownLatch& latch) {
  if (absl::Status counted = latch.CountDown(); !counted.ok()) return counted;
  return latch.Wait({.wait = kTrialPatience});
}

absl::Status MeasurePairs(RedisLockBase& lock, base::Instant deadline, absl::Duration* slowest) {
  for (int i = 0; i < kPairs && base::Now() < deadline; ++i) {
    const base::Instant begun = base::Now();
    absl::StatusOr<Lease> lease = lock.Acquire(kOptions);
    if (!lease.ok()) return lease.status();
    if (absl::Status released = lease->Release(); !released.ok()) return released;
    *slowest = std::max(*slowest, base::Now() - begun);
  }
  return absl::OkStatus();
}

// A look neither waits for a quarantine, or a restart's delay, nor begins one.
std::string Without(std::string_view option, std::string url) {
  for (size_t at = url.find(option); at != std::string::npos; at = url.find(option, at + 1)) {
    if (at == 0 || (url[at - 1] != '?' && url[at - 1] != '&')) continue;
    const size_t end = url.find('&', at);
    return end == std::string::npos ? url.substr(0, at - 1) : url.erase(at, end + 1 - at);
  }
  return url;
}

absl::StatusOr<Client> Connect(const std::string& url, DoctorFacts* facts) {
  ClientOptions options;
  options.unreachable_after = kTrialPatience;
  // What it would warn of the doctor finds out by itself.
  options.on_warning = [](std::string_view) {};
  absl::StatusOr<Client> client = Client::Connect(url, options);
  facts->library = client.status();
  return client;
}

}  // namespace

void TryQuorum(const std::string& url, const std::vector<std::string>& names,
               base::Instant deadline, DoctorFacts* facts) {
  const std::string alone = redis::AsQuorum(Without("restart_delay=", url));
  const absl::StatusOr<Client> client = Connect(alone, facts);
  if (!client.ok()) return;
  RedLock lock(*client, names.back());
  absl::Status outcome = TryLock(lock);
  if (outcome.ok()) outcome = MeasurePairs(lock, deadline, &facts->slowest_pair);
  facts->trials.push_back({.kind = std::string(kinds::kQuorum), .outcome = outcome});
}

void TryLocks(const std::string& url, const std::vector<std::string>& names, base::Instant deadline,
              DoctorFacts* facts) {
  const absl::StatusOr<Client> client = Connect(Without("quarantine=", url), facts);
  if (!client.ok()) return;

  SimpleLock simple(*client, names[0]);
  ReentrantLock reentrant(*client, names[1]);
  ReentrantReadWriteLock read_write(*client, names[2]);
  Semaphore semaphore(*client, names[3], 2);
  CountDownLatch latch(*client, names[4], 1, {.ttl = kTrialLease});
  const std::function<absl::Status()> tries[] = {
      // as kinds::kAll, but a quorum's
      [&] { return TryLock(simple); }, [&] { return TryLock(reentrant); },
      [&] { return TryReadWrite(read_write); }, [&] { return TrySemaphore(semaphore); },
      [&] { return TryLatch(latch); }};
  bool goes_on = true;
  for (size_t i = 0; i < std::size(tries); ++i) {
    goes_on = goes_on && base::Now() < deadline;
    const absl::Status outcome = goes_on ? tries[i]() : absl::CancelledError("not tried");
    goes_on = goes_on && !absl::IsUnavailable(outcome);
    facts->trials.push_back({.kind = std::string(kinds::kAll[i]), .outcome = outcome});
    std::ranges::replace(facts->trials.back().kind, '_', '-');  // for people
  }
  if (!goes_on) return;
  // The first of all had to teach the server its scripts.
  const absl::Status measured = MeasurePairs(simple, deadline, &facts->slowest_pair);
  if (!measured.ok()) facts->trials[0].outcome = measured;
}

namespace {

// The parent of a process; 0 where that can't be seen.
int64_t ParentOf(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat, '\0');  // of what is left of it: the process may end meanwhile
  // "17 (a name, with anything in it) S 16 ..."
  const size_t behind_name = stat.rfind(") ");
  if (behind_name == std::string::npos || behind_name + 4 > stat.size()) return 0;
  const size_t begin = behind_name + 4;
  int64_t parent = 0;
  return absl::SimpleAtoi(stat.substr(begin, stat.find(' ', begin) - begin), &parent) ? parent : 0;
}

}  // namespace

EmbeddedLook::EmbeddedLook(const redis::Url& url) {
  if (url.kind != redis::Url::Kind::kEmbedded) return;
  const absl::StatusOr<std::string> directory = redis::EmbeddedDirectory(url.path);
  directory_ = directory.value_or(url.path);
  const absl::StatusOr<std::optional<std::string>> socket = redis::FindEmbeddedServer(url.path);
  was_there_ = socket.ok() && socket->has_value();
}

std::optional<EmbeddedFacts> EmbeddedLook::Facts(const Told<Fields>& info) const {
  if (!directory_) return std::nullopt;
  EmbeddedFacts facts = {.directory = *directory_, .started_by_us = !was_there_};
  facts.server_pid = NumberIn(info, "process_id").value_or(0);
  if (facts.server_pid > 0) facts.keeper_pid = ParentOf(facts.server_pid);
  // A keeper that has died leaves its server to init.
  if (facts.keeper_pid == 1) facts.keeper_pid = 0;
  return facts;
}

}  // namespace redlatch::cli
