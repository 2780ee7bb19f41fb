// What sentinels, and the servers that they name, are asked; each question on a connection of its
// own.
#ifndef REDLATCH_SRC_REDIS_CONNECT_SENTINEL_QUESTIONS_H_
#define REDLATCH_SRC_REDIS_CONNECT_SENTINEL_QUESTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/redis/url/sentinels.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// `url` is of Kind::kSentinel in both: with the user, password and transport for sentinels; and
// what leads to one of them.
Url AsToSentinels(const Url& url);
Url UrlOfSentinel(const Url& url, const HostAndPort& sentinel);

// As sentinels name them; nothing where that is no address.
std::optional<HostAndPort> MakeHostAndPort(std::string_view host, std::string_view port);

struct SentinelAnswer {
  std::string id;  // of the sentinel; its address where it does not tell
  HostAndPort primary;
  int64_t epoch = 0;                // of that knowledge; 0 where it does not tell
  std::vector<HostAndPort> others;  // further sentinels
};

// kFailedPrecondition where it does not know a primary of that name.
absl::StatusOr<SentinelAnswer> AskSentinel(const Url& url, const HostAndPort& sentinel,
                                           base::Instant deadline);

struct ServerRole {
  bool primary = false;
  std::optional<HostAndPort> replica_of;
};

// What a server says that it is. One that refuses to be asked counts as a primary: whoever connects
// to it then is told why.
absl::StatusOr<ServerRole> AskRole(const Url& url, const HostAndPort& server,
                                   base::Instant deadline);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_SENTINEL_QUESTIONS_H_
