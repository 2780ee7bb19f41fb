#include "src/redis/transport/open.h"

#include <utility>

#include "src/redis/transport/socket_transport.h"
#include "src/redis/transport/tls_transport.h"

namespace redlatch::redis {

absl::StatusOr<std::unique_ptr<Transport>> OpenTransport(const Target& target) {
  absl::StatusOr<std::unique_ptr<Transport>> socket = OpenSocket(target.address);
  if (!socket.ok() || target.tls == nullptr) return socket;
  return OpenTls(target.tls, target.host, *std::move(socket));
}

}  // namespace redlatch::redis
