#include "tests/support/cluster_group.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/wire/reply.h"
#include "tests/support/await.h"
#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

constexpr char kHost[] = "127.0.0.1";
constexpr auto& kUser = RedisServer::kOwnUser;
constexpr auto& kPassword = RedisServer::kOwnPassword;
constexpr char kKeysAtOnce[] = "100";
constexpr char kMigrateTimeoutMs[] = "5000";

}  // namespace

std::unique_ptr<RedisServer> StartClusterOfOne(RedisServerOptions options) {
  // Nobody is to meet it, but it insists on a port for that.
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
    servers_.push_back(RedisServer::Start(std::move(one)));
    servers_.back()->Do({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
  }
  // All with all: gossip alone takes seconds.
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      servers_[i]->Do({"CLUSTER", "MEET", kHost, std::to_string(servers_[j]->port()),
                       std::to_string(bus_ports_[j].number())});
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

std::string ClusterGroup::url() const {
  std::string url = "redis-cluster://";
  for (const auto& each : servers_) {
    if (each != servers_.front()) url += ",";
    url += absl::StrCat(kHost, ":", each->port());
  }
  return url;
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
    // All slots, and each replica where it belongs.
    size_t nodes = 0;
    for (const redis::Reply& range : each->Command({"CLUSTER", "SLOTS"}).elements) {
      nodes += range.elements.size() - 2;
    }
    if (nodes < options_.primaries * (1 + options_.replicas)) return false;
    if (each->Info("role") == "slave" && each->Info("master_link_status") != "up") return false;
  }
  return true;
}

bool ClusterGroup::AwaitWell(absl::Duration patience) {
  return Await([this] { return Well(); }, patience);
}

std::optional<size_t> ClusterGroup::OwnerOf(redis::Slot slot) {
  // None says so for a moment after a move, until it has heard that the one before knows of it.
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
    if (servers_[i]->pid() < 0 || servers_[i]->Info("role") != "master") continue;
    const std::string id = IdOf(i);
    for (const redis::Reply& range : servers_[i]->Command({"CLUSTER", "SLOTS"}).elements) {
      const bool has = range.elements[0].integer <= slot && slot <= range.elements[1].integer;
      if (has && range.elements[2].elements[2].text == id) return i;
    }
  }
  return std::nullopt;
}

redis::Reply ClusterGroup::CommandAt(std::string_view key,
                                     const std::vector<std::string>& command) {
  const std::optional<size_t> owner = OwnerOf(redis::SlotOf(key));
  if (!owner) Fatal("nobody serves the slot of " + std::string(key));
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
  for (;;) {
    const redis::Reply keys =
        servers_[*from]->Do({"CLUSTER", "GETKEYSINSLOT", number, kKeysAtOnce});
    if (keys.elements.empty()) break;
    std::vector<std::string> migrate = {"MIGRATE", kHost, std::to_string(server(to).port()),
                                        "",        "0",   kMigrateTimeoutMs,
                                        "AUTH2",   kUser, kPassword,
                                        "KEYS"};
    for (const redis::Reply& key : keys.elements) migrate.push_back(key.text);
    servers_[*from]->Do(migrate);
  }
  const std::string id = IdOf(to);
  servers_[to]->Do({"CLUSTER", "SETSLOT", number, "NODE", id});
  servers_[*from]->Do({"CLUSTER", "SETSLOT", number, "NODE", id});
  for (const auto& each : servers_) {
    if (each->pid() >= 0 && each->Info("role") == "master") {
      each->Command({"CLUSTER", "SETSLOT", number, "NODE", id});
    }
  }
}

void ClusterGroup::Move(redis::Slot slot, size_t to) {
  BeginMove(slot, to);
  FinishMove(slot, to);
}

}  // namespace redlatch::support
