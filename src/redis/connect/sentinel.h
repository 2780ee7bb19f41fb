#ifndef REDLATCH_SRC_REDIS_CONNECT_SENTINEL_H_
#define REDLATCH_SRC_REDIS_CONNECT_SENTINEL_H_

#include <optional>
#include <string_view>

#include "src/redis/connect/endpoint.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Leads to the primary that the URL's sentinels name.
Endpoint MakeSentinelEndpoint(const Url& url);

// Leads to the sentinels themselves. Any will do, and each call begins with another one.
Endpoint MakeEndpointOfSentinels(const Url& url);

// Both take a URL of Kind::kSentinel. The first sets the user, password and TLS for the sentinels;
// the second leads to one of them.
Url AsToSentinels(const Url& url);
Url UrlOfSentinel(const Url& url, const HostAndPort& sentinel);

// Reads an address as sentinels name it; nothing if it is none.
std::optional<HostAndPort> MakeHostAndPort(std::string_view host, std::string_view port);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_SENTINEL_H_
