// What `redlatch run` says while it waits for its lock.
#ifndef REDLATCH_SRC_CLI_RUN_RUN_H_
#define REDLATCH_SRC_CLI_RUN_RUN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "redlatch/lock_info.h"

namespace redlatch::cli {

// "held by redlatch run: make (web1, pid 4242) and 2 more"; "4 of 4 permits taken, by ..."; or, if
// the lock is free, how many are in line. Empty if it is free and has no waiters.
std::string HoldersText(const LockInfo& info);

// The place of the process `self` among the waiters: "next in line", "3 ahead in line". If it is
// not among those listed, how many wait.
std::string PlaceText(const LockInfo& info, const LockInfo::Process& self);

// A holder on this host that is one of `ancestors`, if the wait can only end after that holder
// does: while it holds the lock, the lock is never free, or never has enough permits. Null if there
// is none.
const LockInfo::Party* HeldAbove(const LockInfo& info, const std::string& host,
                                 const std::vector<pid_t>& ancestors, int64_t permits);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_RUN_H_
