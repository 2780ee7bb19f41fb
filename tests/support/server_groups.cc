#include "tests/support/server_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "tests/support/await.h"
#include "tests/support/fatal.h"
#include "tests/support/raw_connection.h"

namespace redlatch::support {

namespace {

constexpr auto& kUser = RedisServer::kOwnUser;
constexpr auto& kPassword = RedisServer::kOwnPassword;
constexpr char kKeysAtOnce[] = "100";
constexpr char kMigrateTimeoutMs[] = "5000";
constexpr char kHost[] = "127.0.0.1";
constexpr int kSentinels = 3;
constexpr absl::Duration kGroupTimeout = absl::Seconds(30);

// Sends a command for each slot: `verb`, the slot, `end`. It sends all of them before it reads the
// replies.
std::vector<redis::Reply> Pipelined(RedisServer& server, const std::vector<redis::Slot>& slots,
                                    const std::vector<std::string>& verb,
                                    const std::vector<std::string>& end) {
  RawConnection connection = RawConnection::ToSocket(server.socket_path());
  connection.Command({"AUTH", kUser, kPassword});
  for (const redis::Slot slot : slots) {
    std::vector<std::string> command = verb;
    command.push_back(std::to_string(slot));
    command.insert(command.end(), end.begin(), end.end());
    if (!connection.Send(command)) break;
  }
  std::vector<redis::Reply> replies;
  for (size_t i = 0; i < slots.size(); ++i) {
    replies.push_back(connection.Receive());
    if (replies.back().is_error()) Fatal(absl::StrCat(verb.back(), ": ", replies.back().text));
  }
  return replies;
}

}  // namespace

std::unique_ptr<RedisServer> StartClusterOfOne(RedisServerOptions options) {
  // No other node will meet it, but it needs a bus port.
  const ReservedPort bus;
  options.config.push_back("cluster-enabled yes");
  options.config.push_back("cluster-port " + std::to_string(bus.number()));
  auto server = RedisServer::Start(std::move(options));
  server->Do({"CLUSTER", "ADDSLOTSRANGE", "0", std::to_string(redis::kSlots - 1)});
  const auto well = [&] {
    return redis::InfoField(server->Text({"CLUSTER", "INFO"}), "cluster_state") == "ok";
  };
  if (!Await(well, absl::Seconds(10))) Fatal("no cluster: " + server->Log());
  return server;
}

std::unique_ptr<ClusterGroup> ClusterGroup::Start(ClusterGroupOptions options) {
  return std::unique_ptr<ClusterGroup>(new ClusterGroup(std::move(options)));
}

ClusterGroup::~ClusterGroup() = default;

ClusterGroup::ClusterGroup(ClusterGroupOptions options) : options_(std::move(options)) {
  const size_t count = options_.primaries * (1 + options_.replicas);
  for (size_t i = 0; i < count; ++i) {
    RedisServerOptions one = options_.server;
    const std::string bus = std::to_string(bus_ports_.emplace_back().number());
    for (const std::string& line :
         {std::string("cluster-enabled yes"), "cluster-port " + bus,
          absl::StrCat("cluster-node-timeout ", absl::ToInt64Milliseconds(options_.node_timeout)),
          std::string("cluster-replica-validity-factor 0"),
          std::string("repl-ping-replica-period 1"), absl::StrCat("masteruser ", kUser),
          absl::StrCat("masterauth ", kPassword)}) {
      one.config.push_back(line);
    }
    if (one.tls) {
      one.config.insert(one.config.end(), {"tls-cluster yes", "tls-replication yes"});
    }
    servers_.push_back(RedisServer::Start(std::move(one)));
    servers_.back()->Do({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
  }
  // Each node meets all others, since gossip alone takes seconds.
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      servers_[i]->Do(
          {"CLUSTER", "MEET", options_.host, PortOf(j), std::to_string(bus_ports_[j].number())});
    }
  }
  for (size_t i = 0; i < options_.primaries; ++i) {
    const size_t first = redis::kSlots * i / options_.primaries;
    const size_t next = redis::kSlots * (i + 1) / options_.primaries;
    servers_[i]->Do({"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(next - 1)});
  }
  for (size_t i = options_.primaries; i < count; ++i) {
    const std::string its = IdOf(i % options_.primaries);
    const auto knows = [&] {
      return !servers_[i]->Command({"CLUSTER", "REPLICATE", its}).is_error();
    };
    if (!Await(knows, absl::Seconds(10))) Fatal("no replica: " + servers_[i]->Log());
  }
  if (!AwaitWell()) Fatal("the cluster does not come about:\n" + servers_[0]->Log());
}

std::string ClusterGroup::UrlOf(int (RedisServer::*port)() const) const {
  const bool numeric6 = options_.host.find(':') != std::string::npos;
  const std::string host = numeric6 ? absl::StrCat("[", options_.host, "]") : options_.host;
  std::string url = "redis-cluster://";
  for (const auto& each : servers_) {
    if (each != servers_.front()) url += ",";
    absl::StrAppend(&url, host, ":", (each.get()->*port)());
  }
  return url;
}

std::string ClusterGroup::url() const { return UrlOf(&RedisServer::port); }

std::string ClusterGroup::tls_url() const {
  return absl::StrCat(UrlOf(&RedisServer::tls_port), "?tls=on&ca=", options_.server.tls.value().ca);
}

std::string ClusterGroup::PortOf(size_t server) const {
  const RedisServer& one = *servers_[server];
  return std::to_string(options_.server.tls ? one.tls_port() : one.port());
}

bool ClusterGroup::IsPrimary(size_t server) {
  return servers_[server]->pid() >= 0 && servers_[server]->Info("role") == "master";
}

std::string ClusterGroup::IdOf(size_t server) {
  return servers_[server]->Text({"CLUSTER", "MYID"});
}

bool ClusterGroup::Well() {
  for (const auto& each : servers_) {
    if (each->pid() < 0) continue;
    const std::string info = each->Text({"CLUSTER", "INFO"});
    const auto is = [&](std::string_view field, size_t value) {
      return redis::InfoField(info, field) == std::to_string(value);
    };
    if (redis::InfoField(info, "cluster_state") != "ok" ||
        !is("cluster_known_nodes", servers_.size()) || !is("cluster_size", options_.primaries)) {
      return false;
    }
    // All slots are served, and each replica follows its primary.
    size_t nodes = 0;
    for (const redis::Reply& range : each->Command({"CLUSTER", "SLOTS"}).elements) {
      nodes += range.elements.size() - 2;
    }
    if (nodes < options_.primaries * (1 + options_.replicas)) return false;
    if (each->Info("role") == "slave" && each->Info("master_link_status") != "up") return false;
  }
  return true;
}

bool ClusterGroup::AwaitWell() {
  return Await([this] { return Well(); }, kGroupTimeout);
}

std::optional<size_t> ClusterGroup::OwnerOf(redis::Slot slot) {
  // For a moment after a move, no node claims the slot.
  std::optional<size_t> owner;
  Await(
      [&] {
        owner = Claimant(slot);
        return owner.has_value();
      },
      absl::Seconds(5));
  return owner;
}

std::optional<size_t> ClusterGroup::Claimant(redis::Slot slot) {
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (!Claimed(i, slot, slot).empty()) return i;
  }
  return std::nullopt;
}

std::vector<redis::Slot> ClusterGroup::Claimed(size_t server, redis::Slot first, redis::Slot last) {
  std::vector<redis::Slot> claimed;
  if (!IsPrimary(server)) return claimed;
  const std::string id = IdOf(server);
  for (const redis::Reply& range : servers_[server]->Command({"CLUSTER", "SLOTS"}).elements) {
    if (range.elements[2].elements[2].text != id) continue;
    const int64_t end = std::min<int64_t>(last, range.elements[1].integer);
    for (int64_t slot = std::max<int64_t>(first, range.elements[0].integer); slot <= end; ++slot) {
      claimed.push_back(static_cast<redis::Slot>(slot));
    }
  }
  return claimed;
}

std::string ClusterGroup::NameAt(size_t server, std::string_view prefix) {
  for (int i = 0;; ++i) {
    const std::string name = std::string(prefix) + ":" + std::to_string(i);
    if (OwnerOf(redis::SlotOf(name)) == server) return name;
  }
}

redis::Reply ClusterGroup::CommandAt(std::string_view key,
                                     const std::vector<std::string>& command) {
  const std::optional<size_t> owner = OwnerOf(redis::SlotOf(key));
  if (!owner) Fatal("no node serves the slot of " + std::string(key));
  return servers_[*owner]->Command(command);
}

bool ClusterGroup::OfOneEpoch() {
  std::set<std::string> epochs;
  for (const auto& each : servers_) {
    if (each->pid() < 0) continue;
    const std::string info = each->Text({"CLUSTER", "INFO"});
    epochs.emplace(redis::InfoField(info, "cluster_current_epoch"));
  }
  return epochs.size() == 1;
}

void ClusterGroup::BeginMove(redis::Slot slot, size_t to) {
  const std::string number = std::to_string(slot);
  const std::optional<size_t> from = OwnerOf(slot);
  if (!from || *from == to) return;
  if (!Await([this] { return OfOneEpoch(); }, absl::Seconds(30))) Fatal("the epochs differ");
  servers_[to]->Do({"CLUSTER", "SETSLOT", number, "IMPORTING", IdOf(*from)});
  servers_[*from]->Do({"CLUSTER", "SETSLOT", number, "MIGRATING", IdOf(to)});
}

void ClusterGroup::FinishMove(redis::Slot slot, size_t to) {
  const std::string number = std::to_string(slot);
  const std::optional<size_t> from = OwnerOf(slot);
  if (!from || *from == to) return;
  MoveKeys(slot, *from, to);
  const std::string id = IdOf(to);
  servers_[to]->Do({"CLUSTER", "SETSLOT", number, "NODE", id});
  servers_[*from]->Do({"CLUSTER", "SETSLOT", number, "NODE", id});
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (IsPrimary(i)) servers_[i]->Command({"CLUSTER", "SETSLOT", number, "NODE", id});
  }
}

void ClusterGroup::MoveKeys(redis::Slot slot, size_t from, size_t to) {
  for (;;) {
    const redis::Reply keys =
        servers_[from]->Do({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), kKeysAtOnce});
    if (keys.elements.empty()) return;
    std::vector<std::string> migrate = {
        "MIGRATE",         options_.host, PortOf(to), "",        "0",
        kMigrateTimeoutMs, "AUTH2",       kUser,      kPassword, "KEYS"};
    for (const redis::Reply& key : keys.elements) migrate.push_back(key.text);
    // On a busy machine the nodes may lose contact with each other for a moment.
    redis::Reply reply;
    const auto taken = [&] {
      reply = servers_[from]->Command(migrate);
      return redis::ClassifyError(reply.text) != redis::ErrorCode::kClusterDown;
    };
    if (!Await(taken, absl::Seconds(30)) || reply.is_error()) Fatal("MIGRATE: " + reply.text);
  }
}

size_t ClusterGroup::MoveRange(redis::Slot first, redis::Slot last, size_t to) {
  if (!Await([this] { return OfOneEpoch(); }, absl::Seconds(30))) Fatal("the epochs differ");
  size_t moved = 0;
  for (size_t from = 0; from < servers_.size(); ++from) {
    if (from == to) continue;
    const std::vector<redis::Slot> slots = Claimed(from, first, last);
    if (!slots.empty()) MoveSlots(slots, from, to);
    moved += slots.size();
  }
  return moved;
}

void ClusterGroup::MoveSlots(const std::vector<redis::Slot>& slots, size_t from, size_t to) {
  const auto at = [&](size_t server, const std::vector<std::string>& verb,
                      const std::vector<std::string>& end) {
    return Pipelined(*servers_[server], slots, verb, end);
  };
  at(to, {"CLUSTER", "SETSLOT"}, {"IMPORTING", IdOf(from)});
  at(from, {"CLUSTER", "SETSLOT"}, {"MIGRATING", IdOf(to)});
  const std::vector<redis::Reply> keys = at(from, {"CLUSTER", "COUNTKEYSINSLOT"}, {});
  for (size_t i = 0; i < slots.size(); ++i) {
    if (keys[i].integer > 0) MoveKeys(slots[i], from, to);
  }
  const std::string id = IdOf(to);
  at(to, {"CLUSTER", "SETSLOT"}, {"NODE", id});
  at(from, {"CLUSTER", "SETSLOT"}, {"NODE", id});
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (i != from && i != to && IsPrimary(i)) at(i, {"CLUSTER", "SETSLOT"}, {"NODE", id});
  }
}

SentinelGroup::~SentinelGroup() {
  // The sentinels end first, so that they promote no server meanwhile.
  sentinels_.clear();
}

std::unique_ptr<SentinelGroup> SentinelGroup::Start(SentinelGroupOptions options) {
  return std::unique_ptr<SentinelGroup>(new SentinelGroup(std::move(options)));
}

SentinelGroup::SentinelGroup(SentinelGroupOptions options) : options_(std::move(options)) {
  for (int i = 0; i <= options_.replicas; ++i) {
    servers_.push_back(RedisServer::Start(options_.server));
    RedisServer& server = *servers_.back();
    if (options_.proxied) {
      proxies_.push_back(std::make_unique<TcpProxy>(TcpProxyOptions{.port = server.port()}));
    }
    const std::string announced = std::to_string(port(static_cast<size_t>(i)));
    server.Do({"CONFIG", "SET", "masteruser", kUser, "masterauth", kPassword, "replica-announce-ip",
               kHost, "replica-announce-port", announced});
    server.Do({"CONFIG", "REWRITE"});
    if (i > 0) server.Do({"REPLICAOF", kHost, std::to_string(port(0))});
  }
  for (int i = 0; i < kSentinels; ++i) {
    RedisServerOptions sentinel = options_.sentinel;
    sentinel.sentinel = true;
    sentinels_.push_back(RedisServer::Start(std::move(sentinel)));
    RedisServer& each = *sentinels_.back();
    each.Do({"SENTINEL", "DEBUG", "info-period", "400", "publish-period", "100", "ping-period",
             "400", "ask-period", "100", "election-timeout", "1000"});
    each.Do({"SENTINEL", "MONITOR", kPrimary, kHost, std::to_string(port(0)), "2"});
    each.Do({"SENTINEL", "SET", kPrimary, "down-after-milliseconds", "500", "failover-timeout",
             "2000", "auth-user", kUser, "auth-pass", kPassword});
  }
  if (!AwaitWell()) Fatal("the sentinels do not find the servers:\n" + sentinels_.at(0)->Log());
}

int SentinelGroup::port(size_t i) const {
  return options_.proxied ? proxies_[i]->port() : servers_[i]->port();
}

std::string SentinelGroup::url() const {
  std::string url = "redis-sentinel://";
  for (const auto& each : sentinels_) {
    if (each != sentinels_.front()) url += ",";
    url += std::string(kHost) + ":" + std::to_string(each->port());
  }
  return url + "/" + kPrimary;
}

std::optional<size_t> SentinelGroup::NamedBy(RedisServer& sentinel) {
  if (sentinel.pid() < 0) return std::nullopt;
  const redis::Reply named = sentinel.Command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", kPrimary});
  for (size_t i = 0; named.elements.size() == 2 && i < servers_.size(); ++i) {
    if (named.elements[1].text == std::to_string(port(i))) return i;
  }
  return std::nullopt;
}

std::optional<size_t> SentinelGroup::NamedByMost() {
  std::map<size_t, size_t> votes;
  for (const auto& each : sentinels_) {
    const std::optional<size_t> named = NamedBy(*each);
    if (named && 2 * ++votes[*named] > sentinels_.size()) return named;
  }
  return std::nullopt;
}

bool SentinelGroup::SaysThatItIsOne(size_t server) {
  const redis::Reply role = servers_[server]->Command({"ROLE"});
  return !role.elements.empty() && role.elements[0].text == "master";
}

std::optional<size_t> SentinelGroup::Primary() {
  const std::optional<size_t> named = NamedByMost();
  return named && SaysThatItIsOne(*named) ? named : std::nullopt;
}

std::optional<size_t> SentinelGroup::PrimaryOtherThan(size_t old) {
  const std::optional<size_t> named = NamedByMost();
  return named && *named != old && SaysThatItIsOne(*named) ? named : std::nullopt;
}

size_t SentinelGroup::AwaitPrimaryOtherThan(size_t old) {
  std::optional<size_t> primary;
  const auto found = [&] { return (primary = PrimaryOtherThan(old)).has_value(); };
  if (!Await(found, kGroupTimeout)) {
    std::string logs;
    for (const auto& each : sentinels_) logs += each->Log() + "\n";
    Fatal("no other primary comes:\n" + logs);
  }
  return *primary;
}

bool SentinelGroup::Well() {
  const std::optional<size_t> primary = Primary();
  if (!primary) return false;
  for (size_t i = 0; i < servers_.size(); ++i) {
    RedisServer& server = *servers_[i];
    if (i == *primary) continue;
    if (server.Info("role") != "slave" || server.Info("master_link_status") != "up" ||
        server.Info("master_port") != std::to_string(port(*primary))) {
      return false;
    }
  }
  for (const auto& each : sentinels_) {
    const redis::Reply master = each->Command({"SENTINEL", "MASTER", kPrimary});
    if (redis::ValueOf(master, "flags") != "master" ||
        redis::ValueOf(master, "num-slaves") != std::to_string(servers_.size() - 1) ||
        redis::ValueOf(master, "num-other-sentinels") != std::to_string(sentinels_.size() - 1)) {
      return false;
    }
    // Each sentinel must have asked the replicas themselves.
    for (const redis::Reply& replica : each->Command({"SENTINEL", "REPLICAS", kPrimary}).elements) {
      if (redis::ValueOf(replica, "flags") != "slave" ||
          redis::ValueOf(replica, "master-link-status") != "ok" ||
          redis::ValueOf(replica, "master-port") != std::to_string(port(*primary))) {
        return false;
      }
    }
  }
  return true;
}

bool SentinelGroup::AwaitWell() {
  return Await([this] { return Well(); }, kGroupTimeout);
}

}  // namespace redlatch::support
