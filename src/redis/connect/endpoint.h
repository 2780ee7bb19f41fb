#ifndef REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_
#define REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Where a URL leads. Not thread-safe: each Connector has its own.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // What to try, in order; never empty. Returns by `deadline`, with an error; what takes
  // longer (a name server, a server that starts) goes on, and the next call has it sooner. That of
  // a name server that has not answered yet is kDeadlineExceeded.
  virtual absl::StatusOr<std::vector<Target>> Targets(base::Instant deadline) = 0;
};

std::unique_ptr<Endpoint> MakeEndpoint(const Url& url);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_ENDPOINT_H_
