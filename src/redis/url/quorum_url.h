// The text of a URL that names a quorum of servers: "redlock:redis://a,redis://b,rediss://c".
#ifndef REDLATCH_SRC_REDIS_URL_QUORUM_URL_H_
#define REDLATCH_SRC_REDIS_URL_QUORUM_URL_H_

#include <string>
#include <string_view>
#include <vector>

namespace redlatch::redis {

// The URLs of the servers that a quorum's URL names, each as it was written, secrets included; in
// the order of Url::members.
std::vector<std::string> MembersOf(std::string_view quorum);

// The URL of a quorum that this server alone is.
std::string AsQuorum(std::string_view member);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_QUORUM_URL_H_
