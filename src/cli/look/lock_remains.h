#ifndef REDLATCH_SRC_CLI_LOOK_LOCK_REMAINS_H_
#define REDLATCH_SRC_CLI_LOOK_LOCK_REMAINS_H_

#include <string>
#include <vector>

#include "src/redis/wire/codec.h"

namespace redlatch::cli {

// Deletes whatever locks of these names, of any kind, have left but tombstones.
redis::Command DeleteLocks(const std::vector<std::string>& names);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_LOCK_REMAINS_H_
