#include "tests/support/sentinel_group.h"

#include <map>
#include <utility>

#include "tests/support/await.h"
#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

constexpr char kHost[] = "127.0.0.1";
constexpr auto& kUser = RedisServer::kOwnUser;
constexpr auto& kPassword = RedisServer::kOwnPassword;

std::string Millis(absl::Duration duration) {
  return std::to_string(absl::ToInt64Milliseconds(duration));
}

}  // namespace

SentinelGroup::~SentinelGroup() {
  // Nobody is to promote what is just going.
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
  for (int i = 0; i < options_.sentinels; ++i) {
    RedisServerOptions sentinel = options_.sentinel;
    sentinel.sentinel = true;
    sentinels_.push_back(RedisServer::Start(std::move(sentinel)));
    RedisServer& each = *sentinels_.back();
    each.Do({"SENTINEL", "DEBUG", "info-period", "400", "publish-period", "100", "ping-period",
             "400", "ask-period", "100", "election-timeout", "1000"});
    const std::string quorum = std::to_string(options_.sentinels / 2 + 1);
    each.Do({"SENTINEL", "MONITOR", kPrimary, kHost, std::to_string(port(0)), quorum});
    each.Do({"SENTINEL", "SET", kPrimary, "down-after-milliseconds", Millis(options_.down_after),
             "failover-timeout", "2000", "auth-user", kUser, "auth-pass", kPassword});
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

size_t SentinelGroup::AwaitPrimaryOtherThan(size_t old, absl::Duration patience) {
  std::optional<size_t> primary;
  const auto found = [&] { return (primary = PrimaryOtherThan(old)).has_value(); };
  if (!Await(found, patience)) {
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
    // What it knows of the replicas is from their own words.
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

bool SentinelGroup::AwaitWell(absl::Duration patience) {
  return Await([this] { return Well(); }, patience);
}

}  // namespace redlatch::support
