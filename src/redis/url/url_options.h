#ifndef REDLATCH_SRC_REDIS_URL_URL_OPTIONS_H_
#define REDLATCH_SRC_REDIS_URL_URL_OPTIONS_H_

#include <string_view>

#include "absl/status/status.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Reads "name=value&name=value", still percent-encoded, into `url`, whose kind is set.
absl::Status ParseUrlOptions(std::string_view text, Url* url);

// Part of options and paths alike; `part` names it.
absl::Status ParseUrlDatabase(std::string_view text, std::string_view part, Url* url);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_URL_OPTIONS_H_
