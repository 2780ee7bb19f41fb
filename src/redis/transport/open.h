#ifndef REDLATCH_SRC_REDIS_TRANSPORT_OPEN_H_
#define REDLATCH_SRC_REDIS_TRANSPORT_OPEN_H_

#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/redis/transport/transport.h"

namespace redlatch::redis {

class Tls;

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  std::string text;  // for messages: "127.0.0.1:6379", "/run/redis.sock"

  friend bool operator==(const SocketAddress& a, const SocketAddress& b) {
    return a.size == b.size && memcmp(&a.storage, &b.storage, a.size) == 0;
  }
};

// What a transport is opened to: one address of a server, and what the server is called, since it
// shows a certificate of that name.
struct Target {
  SocketAddress address;
  std::string host;          // as the URL names it; empty for a Unix socket
  std::shared_ptr<Tls> tls;  // null: TLS is not spoken
};

// Opens a transport that has not begun to connect.
using TransportFactory = std::function<absl::StatusOr<std::unique_ptr<Transport>>(const Target&)>;

// The transport that the target asks for. The one place that chooses.
absl::StatusOr<std::unique_ptr<Transport>> OpenTransport(const Target& target);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_OPEN_H_
