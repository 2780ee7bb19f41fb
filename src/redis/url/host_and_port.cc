#include "src/redis/url/host_and_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/redis/url/sentinels.h"
#include "src/redis/url/url_parts.h"

namespace redlatch::redis {
namespace {

constexpr size_t kMaxHost = 253;  // of a domain name
constexpr size_t kMaxZone = 15;   // of an interface's name

absl::Status ParsePort(std::string_view text, Url* url) {
  const std::optional<int> port = ParseNumber(text, 1, 65535);
  if (!port) {
    return InvalidUrl(
        {"the port is not a number from 1 to 65535 (if you meant a user and a password, end them "
         "with '@': redis://user:password@host)"});
  }
  url->port = static_cast<uint16_t>(*port);
  return absl::OkStatus();
}

absl::Status ParseIpv6(std::string_view text, Url* url) {
  const size_t percent = text.find('%');
  const std::string address(text.substr(0, percent));
  in6_addr ignored;
  if (inet_pton(AF_INET6, address.c_str(), &ignored) != 1) {
    return InvalidUrl(
        {"the brackets do not hold an IPv6 address; write, for example, redis://[::1]:6379"});
  }
  url->host = address;
  if (percent == std::string_view::npos) return absl::OkStatus();
  std::string_view zone = text.substr(percent);
  const bool encoded = zone.starts_with("%25");
  zone.remove_prefix(encoded ? 3 : 1);
  if (!encoded || zone.empty() || zone.size() > kMaxZone ||
      !std::all_of(zone.begin(), zone.end(), IsNameChar)) {
    return InvalidUrl(
        {"the zone of the IPv6 address is not %25 and the name of an interface; write, for "
         "example, redis://[fe80::1%25eth0]:6379"});
  }
  url->host.append("%").append(zone);
  return absl::OkStatus();
}

absl::Status ParseHostName(std::string_view text, Url* url) {
  if (text.empty())
    return InvalidUrl({"the host is empty; write, for example, redis://localhost:6379"});
  if (text.size() > kMaxHost) return InvalidUrl({"the host is longer than 253 characters"});
  if (text.find(',') != std::string_view::npos) {
    return InvalidUrl(
        {"the host contains a ','; redis:// names a single server (redis-sentinel:// several "
         "sentinels, redis-cluster:// several nodes)"});
  }
  if (!std::all_of(text.begin(), text.end(), IsNameChar)) {
    return InvalidUrl({"the host contains a character that is not allowed in a host name"});
  }
  url->host = text;
  return absl::OkStatus();
}

// "host:port,host:port"; each with `port` where it names none.
absl::StatusOr<std::vector<HostAndPort>> ParseHosts(std::string_view text, uint16_t port) {
  std::vector<HostAndPort> hosts;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    Url one;
    one.port = port;
    if (absl::Status s = ParseHostAndPort(text.substr(0, comma), &one); !s.ok()) return s;
    hosts.push_back({.host = std::move(one.host), .port = one.port});
    if (more) text.remove_prefix(comma + 1);
  }
  return hosts;
}

}  // namespace

bool IsHost(std::string_view text) {
  constexpr size_t kLongest = 255;
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsNameChar(c) || c == ':' || c == '%'; });
}

std::string HostAndPort::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

absl::Status ParseHostAndPort(std::string_view text, Url* url) {
  size_t colon = std::string_view::npos;
  if (!text.empty() && text.front() == '[') {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos)
      return InvalidUrl({"the host contains a '[' without a ']'"});
    if (absl::Status s = ParseIpv6(text.substr(1, bracket - 1), url); !s.ok()) return s;
    text.remove_prefix(bracket + 1);
    if (text.empty()) return absl::OkStatus();
    if (text.front() != ':') return InvalidUrl({"only ':' and the port can follow the ']'"});
    colon = 0;
  } else {
    colon = text.find(':');
    if (colon != text.rfind(':')) {
      return InvalidUrl(
          {"there is more than one ':' in host and port; put an IPv6 address in brackets, as in "
           "redis://[::1]:6379, and end a password with '@'"});
    }
    if (absl::Status s = ParseHostName(text.substr(0, colon), url); !s.ok()) return s;
  }
  if (colon == std::string_view::npos) return absl::OkStatus();
  return ParsePort(text.substr(colon + 1), url);
}

absl::Status ParseCluster(std::string_view hosts, std::string_view path, Url* url) {
  if (path.size() > 1) {
    return InvalidUrl(
        {"there is something after the nodes; a cluster has no database but 0 (options come after "
         "a '?')"});
  }
  absl::StatusOr<std::vector<HostAndPort>> parsed = ParseHosts(hosts, url->port);
  if (!parsed.ok()) return parsed.status();
  url->nodes = *std::move(parsed);
  return absl::OkStatus();
}

absl::Status ParseSentinels(std::string_view hosts, std::string_view path, Url* url) {
  Sentinels::Options options;
  absl::StatusOr<std::vector<HostAndPort>> parsed = ParseHosts(hosts, Sentinels::kPort);
  if (!parsed.ok()) return parsed.status();
  options.hosts = *std::move(parsed);
  if (path.size() <= 1) {
    return InvalidUrl(
        {"the name of the primary is missing, as its sentinels call it; write, for example, "
         "redis-sentinel://host1,host2,host3/mymaster"});
  }
  absl::StatusOr<std::string> name = PercentDecode(path.substr(1), "the primary's name");
  if (!name.ok()) return name.status();
  // What Sentinel itself accepts in the name of a primary.
  if (!std::all_of(name->begin(), name->end(), IsNameChar)) {
    return InvalidUrl(
        {"the primary's name holds something else than letters, digits, '.', '-' and '_' (the "
         "database is an option: db=2)"});
  }
  options.primary = *std::move(name);
  url->sentinels = std::make_shared<Sentinels>(std::move(options));
  return absl::OkStatus();
}

}  // namespace redlatch::redis
