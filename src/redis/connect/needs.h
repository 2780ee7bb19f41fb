// What locks need of a server and of a user, and whether they have it.
#ifndef REDLATCH_SRC_REDIS_CONNECT_NEEDS_H_
#define REDLATCH_SRC_REDIS_CONNECT_NEEDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

// The commands that locks need, as an ACL rule has them; `in_cluster`: of a cluster's node.
std::vector<std::string> NeededCommands(bool in_cluster = false);

// Asks in one round trip, and changes nothing, what of that this user may not. The keys of locks
// are known when they are used: a user who may use some keys only is asked for the rest.
Command NeedsProbe(bool in_cluster = false);

// What the answer comes to; an error is that this user may not ask. kFailedPrecondition: the server
// lacks commands; kPermissionDenied: the user, empty for the default one, lacks permissions, all of
// which the message names, with the rule that grants them.
absl::Status CheckNeeds(const Reply& reply, std::string_view server, std::string_view user,
                        bool in_cluster = false);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_NEEDS_H_
