#ifndef REDLATCH_SRC_REDIS_URL_HOST_AND_PORT_H_
#define REDLATCH_SRC_REDIS_URL_HOST_AND_PORT_H_

#include <string_view>

#include "absl/status/status.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// "host", "host:port", "[address]" or "[address]:port", into the URL.
absl::Status ParseHostAndPort(std::string_view text, Url* url);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_HOST_AND_PORT_H_
