#include "tests/sim/world/sentinel_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/sha1.h"
#include "tests/sim/redis/resp.h"
#include "tests/sim/trace.h"
#include "tests/sim/world/server_group.h"

namespace redlatch::sim {

namespace {

constexpr const char* kSwitched = "+switch-master";

std::string HostText(Address address) {
  const std::string text = ToString(address);
  return text.substr(0, text.find(':'));
}

std::string PortText(Address address) { return std::to_string(address.port); }

void Fields(const std::vector<std::string>& fields, Output& out) {
  out.Array(fields.size());
  for (const std::string& each : fields) out.Text(each);
}

}  // namespace

Sentinel::Sentinel(Network& network, Address address, const std::vector<Address>& all,
                   Address primary)
    : network_(network), address_(address), others_(all), primary_(primary) {
  std::erase(others_, address_);
  network_.Listen(address_, this);
}

void Sentinel::GoDown(bool silently) {
  up_ = false;
  clients_.clear();
  network_.StopListening(address_, silently);
}

void Sentinel::ComeUp() {
  up_ = true;
  network_.Listen(address_, this);
}

void Sentinel::Switch(Address primary, int64_t epoch) {
  const std::string text =
      absl::StrCat(kPrimaryName, " ", HostText(primary_), " ", PortText(primary_), " ",
                   HostText(primary), " ", PortText(primary));
  primary_ = primary;
  epoch_ = epoch;
  Trace::Say("the sentinel ", ToString(address_), " says: ", text);
  for (const auto& [connection, client] : clients_) {
    if (!client.channels.contains(kSwitched)) continue;
    std::string bytes;
    RespOutput out(bytes, client.protocol);
    out.Push(3);
    for (const std::string_view each : {"message", kSwitched, text.c_str()}) out.Text(each);
    network_.Send(connection, bytes);
  }
}

void Sentinel::Received(uint64_t connection, std::string_view bytes) {
  if (Trace::enabled()) {
    Trace::Say("the sentinel ", ToString(address_), " receives on ", connection, " of ",
               network_.ProcessOf(connection)->name, ": ", InWords(bytes));
  }
  Client& client = clients_[connection];
  client.input.append(bytes);
  std::string replies;
  RespOutput out(replies, client.protocol);
  std::vector<std::string_view> words;
  size_t done = 0;
  while (const size_t size = ReadCommand(std::string_view(client.input).substr(done), words)) {
    done += size;
    if (!words.empty()) Execute(client, words, out);
  }
  client.input.erase(0, done);
  if (!replies.empty()) network_.Send(connection, replies);
}

void Sentinel::Execute(Client& client, Words words, Output& out) {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(words[0], name); };
  if (is("SENTINEL")) return ExecuteSentinel(words, out);
  if (is("HELLO")) {
    if (words.size() > 1) client.protocol = words[1] == "3" ? kResp3 : kResp2;
    out.Map(3);
    return out.All("server", "redis", "version", "7.0.15", "mode", "sentinel");
  }
  if (is("CLIENT") && EqualsIgnoringCase(words[1], "SETNAME")) return out.Status("OK");
  if (is("PING")) {
    if (client.channels.empty() || client.protocol == kResp3) return out.Status("PONG");
    return Fields({"pong", words.size() > 1 ? std::string(words[1]) : ""}, out);
  }
  const bool subscribes = is("SUBSCRIBE");
  if (!subscribes && !is("UNSUBSCRIBE")) Unknown("this command of a sentinel", words);
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string channel(words[i]);
    subscribes ? static_cast<void>(client.channels.insert(channel))
               : static_cast<void>(client.channels.erase(channel));
    out.Push(3);
    out.Text(subscribes ? "subscribe" : "unsubscribe");
    out.Text(channel);
    out.Integer(static_cast<int64_t>(client.channels.size()));
  }
}

std::string Sentinel::Id(Address sentinel) const { return base::Sha1Hex(ToString(sentinel)); }

void Sentinel::ExecuteSentinel(Words words, Output& out) const {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(words[1], name); };
  if (is("MYID")) return out.Text(Id(address_));
  if (words.size() != 3 || words[2] != kPrimaryName) Unknown("this form of SENTINEL", words);
  if (is("GET-MASTER-ADDR-BY-NAME")) {
    return Fields({HostText(primary_), PortText(primary_)}, out);
  }
  if (is("MASTER")) {
    return Fields({"name", kPrimaryName, "ip", HostText(primary_), "port", PortText(primary_),
                   "flags", "master", "config-epoch", std::to_string(epoch_)},
                  out);
  }
  if (!is("SENTINELS")) Unknown("this form of SENTINEL", words);
  out.Array(others_.size());
  for (const Address other : others_) {
    Fields({"name", Id(other), "ip", HostText(other), "port", PortText(other)}, out);
  }
}

namespace {

constexpr size_t kServers = 3;
constexpr size_t kSentinels = 3;
constexpr uint16_t kSentinelPort = 26379;
constexpr uint32_t kSentinelNetwork = 0x0a000101;  // 10.0.1.1

}  // namespace

SentinelGroup::SentinelGroup(const Surroundings& world)
    : ReplicatedGroup(world, 1, kServers, /*cluster=*/false) {
  std::vector<Address> all;
  for (uint32_t i = 0; i < kSentinels; ++i) {
    all.push_back({.ip = kSentinelNetwork + i, .port = kSentinelPort});
  }
  for (const Address each : all) {
    watchers_.push_back(
        {.sentinel = std::make_unique<Sentinel>(world.network, each, all, host(0).address()),
         .isolated_with = kServers});
  }
}

std::string SentinelGroup::Url() const {
  std::string url = "redis-sentinel:/";
  for (const Watcher& each : watchers_) {
    absl::StrAppend(&url, url.back() == '/' ? "/" : ",", ToString(each.sentinel->address()));
  }
  absl::StrAppend(&url, "/", Sentinel::kPrimaryName);
  if (world_.plan.quarantine_ms > 0) {
    absl::StrAppend(&url, "?quarantine=", world_.plan.quarantine_ms, "ms");
  }
  return url;
}

std::vector<Address> SentinelGroup::Addresses() const {
  std::vector<Address> all = ReplicatedGroup::Addresses();
  for (const Watcher& each : watchers_) all.push_back(each.sentinel->address());
  return all;
}

bool SentinelGroup::Sees(const Watcher& watcher) const {
  return watcher.sentinel->up() && watcher.isolated_with == kServers;
}

bool SentinelGroup::MayPromote(size_t) {
  return std::count_if(watchers_.begin(), watchers_.end(),
                       [this](const Watcher& each) { return Sees(each); }) >= 2;
}

// The first sentinel decides; the others are told soon after, or later.
void SentinelGroup::Promoted(size_t, size_t) {
  ++epoch_;
  host(PrimaryOf(0)).redis().KillConnections(RedisServer::Clients::kAll);
  for (Watcher& each : watchers_) each.told_at = now() + AWhile();
}

void SentinelGroup::Demoted(size_t node) {
  // An operator's REPLICAOF ends no connections; a sentinel's does.
  if (random_.OneIn(4)) return;
  host(node).redis().KillConnections(RedisServer::Clients::kAll);
}

void SentinelGroup::Returned(size_t node) {
  for (Watcher& each : watchers_) {
    if (each.isolated_with == node) each.isolated_with = kServers;
  }
}

std::vector<Address> SentinelGroup::OnMinoritySide(size_t node) {
  if (random_.OneIn(2)) return {};
  Watcher& one = watchers_[random_.Below(kSentinels)];
  one.isolated_with = node;
  return {one.sentinel->address()};
}

void SentinelGroup::Tick() {
  ReplicatedGroup::Tick();
  for (Watcher& each : watchers_) {
    if (!Sees(each) || each.sentinel->epoch() == epoch_ || now() < each.told_at) continue;
    each.sentinel->Switch(host(PrimaryOf(0)).address(), epoch_);
  }
}

void SentinelGroup::Inject(const Fault& fault) {
  if (fault.kind != FaultKind::kSentinelDown) return ReplicatedGroup::Inject(fault);
  Sentinel& sentinel = *watchers_[fault.detail % kSentinels].sentinel;
  if (!sentinel.up()) return;
  sentinel.GoDown(fault.detail / kSentinels % 2 == 0);
  world_.kernel.After(fault.length_ms * kMilli, [&sentinel] { sentinel.ComeUp(); });
}

}  // namespace redlatch::sim
