// Which processes a command has become, and which it comes from.
#ifndef REDLATCH_SRC_CLI_RUN_FAMILY_H_
#define REDLATCH_SRC_CLI_RUN_FAMILY_H_

#include <sys/types.h>

#include <vector>

namespace redlatch::cli {

// The living processes of a command: itself, its descendants, and those of them whose parents have
// ended, which the kernel hands to the calling process as long as that is a subreaper. No process
// group is asked, since shells and daemons make their own; but an orphan in a session of its own is
// a daemon, and no longer the command's.
//
// `keeper` is the caller's child that is no part of it, but may be the command's parent; 0: none.
// Orphans that have ended are reaped, and not the command itself.
std::vector<pid_t> Family(pid_t command, pid_t keeper);

// The processes that this one descends from, the nearest first.
std::vector<pid_t> Ancestors();

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_FAMILY_H_
