#ifndef REDLATCH_SRC_REDIS_TRANSPORT_SOCKET_TRANSPORT_H_
#define REDLATCH_SRC_REDIS_TRANSPORT_SOCKET_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "src/redis/transport/open.h"

namespace redlatch::redis {

// TCP (no delay, keepalive) and Unix sockets. The descriptor is closed on exec.
absl::StatusOr<std::unique_ptr<Transport>> OpenSocket(const SocketAddress& address);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_SOCKET_TRANSPORT_H_
