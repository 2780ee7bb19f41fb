#ifndef REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_
#define REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Finds the addresses of a URL. Not thread-safe: each Connector has its own.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Returns the targets to try, in order; never empty. Fails at `deadline`. Slow work (a name
  // lookup, a starting server) continues, and the next call gets its result sooner.
  // kDeadlineExceeded: the name server has not answered yet.
  virtual absl::StatusOr<std::vector<Target>> Targets(base::Instant deadline) = 0;
};

std::unique_ptr<Endpoint> MakeEndpoint(const Url& url);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_
