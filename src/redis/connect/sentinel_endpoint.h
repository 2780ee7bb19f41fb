#ifndef REDLATCH_SRC_REDIS_CONNECT_SENTINEL_ENDPOINT_H_
#define REDLATCH_SRC_REDIS_CONNECT_SENTINEL_ENDPOINT_H_

#include <memory>

#include "src/redis/connect/endpoint.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// To the primary of which the URL's sentinels know; see SentinelSurvey.
std::unique_ptr<Endpoint> MakeSentinelEndpoint(const Url& url);

// To the sentinels themselves, of which any will do, another one first each time.
std::unique_ptr<Endpoint> MakeEndpointOfSentinels(const Url& url);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_SENTINEL_ENDPOINT_H_
