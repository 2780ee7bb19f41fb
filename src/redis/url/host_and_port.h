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

// True if a server's text can be a host: a name or an address, and nothing else.
bool IsHost(std::string_view text);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_HOST_AND_PORT_H_
