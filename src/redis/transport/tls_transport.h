#ifndef REDLATCH_SRC_REDIS_TRANSPORT_TLS_TRANSPORT_H_
#define REDLATCH_SRC_REDIS_TRANSPORT_TLS_TRANSPORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/redis/transport/tls.h"
#include "src/redis/transport/transport.h"

namespace redlatch::redis {

// TLS over `socket`, to a server that the URL calls `host`. Connect() connects the socket; the
// first Read() or Write() shakes hands. So who connects knows which of the two takes time.
absl::StatusOr<std::unique_ptr<Transport>> OpenTls(std::shared_ptr<Tls> tls,
                                                   const std::string& host,
                                                   std::unique_ptr<Transport> socket);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_TLS_TRANSPORT_H_
