#ifndef REDLATCH_SRC_CLI_LOOK_QUORUM_ROW_H_
#define REDLATCH_SRC_CLI_LOOK_QUORUM_ROW_H_

#include <cstdint>
#include <vector>

#include "src/cli/look/lock_rows.h"

namespace redlatch::cli {

// Whether what one server of a quorum has may be the quorum's lock: its key is free, or it has
// granted the lock, or another program has set the key.
bool MayBeOfQuorum(const LockRow& row);

// What the servers of a quorum know of one lock, in one row. Pure. `rows`: of those that know the
// name; `servers`: all of them; `unknown`: so many could not be asked.
//
// The first hold is that which most servers have granted, and it holds the lock if a majority has.
// Its lease is what a majority has left if it is not renewed.
LockRow RowOfQuorum(const std::vector<LockRow>& rows, int64_t servers, int64_t unknown);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_QUORUM_ROW_H_
