#ifndef REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_
#define REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Finds the addresses of a URL. Returns the targets to try, in order; never empty. Fails at
// `deadline`. Slow work (a name lookup, a starting server) continues, and the next call gets its
// result sooner. kDeadlineExceeded: the name server has not answered yet. Not thread-safe: each
// Connector has its own.
using Endpoint = std::function<absl::StatusOr<std::vector<Target>>(base::Instant deadline)>;

Endpoint MakeEndpoint(const Url& url);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_
