#ifndef REDLATCH_SRC_REDIS_URL_HOST_AND_PORT_H_
#define REDLATCH_SRC_REDIS_URL_HOST_AND_PORT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace redlatch::redis {

struct HostAndPort {
  std::string host;  // as getaddrinfo() takes it: no brackets, "fe80::1%eth0"
  uint16_t port = 0;

  // "127.0.0.1:6379", "[::1]:6379"
  std::string text() const;
  friend bool operator==(const HostAndPort&, const HostAndPort&) = default;
  friend auto operator<=>(const HostAndPort&, const HostAndPort&) = default;
};

// Whether a server may have meant that as a host: a name, or an address, and no more.
bool IsHost(std::string_view text);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_HOST_AND_PORT_H_
