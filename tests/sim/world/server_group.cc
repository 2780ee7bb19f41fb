#include "tests/sim/world/server_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/trace.h"
#include "tests/sim/world/cluster_group.h"
#include "tests/sim/world/sentinel_group.h"

namespace redlatch::sim {

namespace {

constexpr int64_t kUnixMicros = 1'700'000'000'000'000;

}  // namespace

std::string InWords(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size() && text.size() < 400;) {
    const size_t end = std::min(bytes.find("\r\n", at), bytes.size());
    const std::string_view line = bytes.substr(at, std::min<size_t>(end - at, 120));
    at = end + 2;
    if (line.empty() || line[0] == '$' || line[0] == '*' || line[0] == '>') continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", std::string(line));
  }
  return text;
}

Host::Host(Kernel& kernel, Network& network, Address address, ServerOptions options, Clock clock)
    : kernel_(kernel),
      network_(network),
      address_(address),
      options_(std::move(options)),
      clock_(clock),
      redis_(std::make_unique<RedisServer>(options_, this)) {
  network_.Listen(address_, this);
}

RedisServer& Host::redis() {
  redis_->SetClock(kUnixMicros + clock_.At(kernel_.now()) / kMicro);
  return *redis_;
}

void Host::GoDown(bool silently) {
  up_ = false;
  network_.StopListening(address_, silently);
}

void Host::ComeUp(const Keyspace& data) {
  commands_before_ = commands();
  scripts_before_ = scripts();
  options_.seed += uint64_t{1} << 32;
  redis_ = std::make_unique<RedisServer>(options_, this);
  redis().Restore({data, redis_->replication()});
  if (prepare_) prepare_(*redis_);
  up_ = true;
  writes_ = false;
  ++starts_;
  busy_until_ = 0;
  network_.Listen(address_, this);
}

void Host::Received(uint64_t connection, std::string_view bytes) {
  if (Trace::enabled()) {
    Trace::Say(ToString(address_), " receives on ", connection, " of ",
               network_.ProcessOf(connection)->name, ": ", InWords(bytes));
  }
  redis().Receive(connection, bytes);
  Executed();
}

void Host::Prepare(std::function<void(RedisServer& redis)> prepare) {
  prepare_ = std::move(prepare);
  prepare_(*redis_);
}

void Host::Acked(uint64_t replica, int64_t offset) {
  redis().AckFromReplica(replica, offset);
  Executed();
}

void Host::SetFewReplicas(bool few) {
  few_replicas_ = few;
  redis_->conditions.few_replicas = few;
}

void Host::Executed() {
  if (executed_) executed_();
  if (file_) WriteToDisk();
  if (executed_ || file_) EndWaits();
}

// Writes what the server has executed so far.
void Host::WriteToDisk() {
  if (writes_ || !up_ || redis_->offset() <= redis_->synced()) return;
  writes_ = true;
  const int64_t takes =
      file_->OneIn(20) ? file_->Between(0, 20 * kMilli) : file_->Between(20 * kMicro, kMilli);
  kernel_.After(takes, [this, start = starts_, offset = redis_->offset(), keys = redis_->keys()] {
    if (start != starts_ || !up_) return;
    writes_ = false;
    const bool fails =
        hangs() || disk_hangs_until_ > kernel_.now() || redis_->conditions.cannot_save;
    if (fails) return kernel_.After(5 * kMilli, [this] { WriteToDisk(); });
    on_disk_ = keys;
    redis().Synced(offset);
    Executed();
  });
}

// Wakes the server when the first WAIT ends.
void Host::EndWaits() {
  const int64_t until_us = redis_->NextTimeout();
  if (until_us == kNever) return;
  const int64_t left = std::max<int64_t>(until_us - redis().clock() + 1, 0);
  const int64_t when = std::max(
      busy_until_,
      kernel_.now() + static_cast<int64_t>(static_cast<double>(left * kMicro) / clock_.speed));
  if (ends_wait_at_ > kernel_.now() && ends_wait_at_ <= when) return;
  ends_wait_at_ = when;
  kernel_.At(when, [this, when] {
    if (ends_wait_at_ != when) return;
    ends_wait_at_ = kNever;
    if (!up_) return;
    if (!hangs()) redis().Tick();
    Executed();
  });
}

void Host::Send(uint64_t connection, std::string_view bytes) {
  if (Trace::enabled())
    Trace::Say(ToString(address_), " sends on ", connection, ": ", InWords(bytes));
  network_.Send(connection, bytes);
}

void Host::Close(uint64_t connection) { network_.CloseByServer(connection); }

namespace {

constexpr uint16_t kPort = 6379;
constexpr uint32_t kNetwork = 0x0a000001;  // 10.0.0.1

// Servers that know nothing about each other.
class SeparateServers final : public ServerGroup {
 public:
  explicit SeparateServers(const Surroundings& world) : ServerGroup(world) {
    for (int i = 0; i < world.plan.servers; ++i) {
      Clock clock = world.plan.server_clock;
      clock.offset = i * 3 * kMilli;
      AddHost({}, clock);
    }
  }
  std::string OtherUrl() const override {
    return world_.plan.group == Group::kQuorum
               ? Url()
               : absl::StrCat("redis://", ToString(hosts_.back()->address()));
  }
};

}  // namespace

std::unique_ptr<ServerGroup> ServerGroup::Make(const Surroundings& world) {
  switch (world.plan.group) {
    case Group::kSentinel:
      return std::make_unique<SentinelGroup>(world);
    case Group::kCluster:
      return std::make_unique<ClusterGroup>(world);
    default:
      return std::make_unique<SeparateServers>(world);
  }
}

ServerGroup::ServerGroup(const Surroundings& world)
    : world_(world), random_(world.plan.seed ^ 0x5e7e) {}

Address ServerGroup::AddressOf(size_t i) {
  return {.ip = kNetwork + static_cast<uint32_t>(i), .port = kPort};
}

Host& ServerGroup::AddHost(ServerOptions options, Clock clock) {
  const size_t i = hosts_.size();
  options.seed = world_.plan.seed * 16 + i;
  // Servers with each way to delete a key that has a certain value, and some without.
  const uint64_t version = world_.plan.seed % 4;
  options.valkey = version == 1;
  if (version == 1) options.version = "9.0.1";
  if (version == 2 || (version != 1 && world_.plan.fsync)) options.version = "8.4.0";
  hosts_.push_back(std::make_unique<Host>(world_.kernel, world_.network, AddressOf(i),
                                          std::move(options), clock));
  if (world_.plan.fsync) hosts_.back()->KeepFile(random_.Fork());
  return *hosts_.back();
}

std::string ServerGroup::Url() const {
  std::vector<std::string> urls;
  for (const auto& host : hosts_) {
    urls.push_back(absl::StrCat("redis://", ToString(host->address())));
    if (world_.plan.restart_delay_ms == 0) continue;
    absl::StrAppend(&urls.back(), "?restart_delay=", world_.plan.restart_delay_ms, "ms");
  }
  return world_.plan.group == Group::kQuorum ? absl::StrCat("redlock:", absl::StrJoin(urls, ","))
                                             : urls.front();
}

std::vector<Address> ServerGroup::Addresses() const {
  std::vector<Address> all;
  for (const auto& host : hosts_) all.push_back(host->address());
  return all;
}

}  // namespace redlatch::sim
