// What must be true of every history of locks, whatever was done to network, server and processes.
#ifndef REDLATCH_TESTS_SUPPORT_HISTORY_CHECKER_H_
#define REDLATCH_TESTS_SUPPORT_HISTORY_CHECKER_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "tests/support/lock_history.h"

namespace redlatch::support {

// Each violation in words that name the acquisitions; empty where all is well. Pure.

// Certain holds of different owners never overlap, but those of readers. A hold that a forced
// release may have ended is certain until that one's call only.
std::vector<std::string> CheckExclusion(const History& history);

// No token is given twice, and one whose acquisition returned before another's began is smaller. A
// reader has the token of a writer before it: it may be equal. The holds of an owner that several
// processes are share one as long as one of them is held.
std::vector<std::string> CheckTokens(const History& history);

// At no moment do the certain holds of one semaphore, its number being `lock`, have more permits
// than capacities[lock] in all.
std::vector<std::string> CheckCapacity(const History& history, const std::vector<int>& capacities);

// From `calm` on nothing disturbs: no lock is without a certain holder for longer than `bound`
// while one and the same acquisition waits for it, up to the end of that or to `until`.
std::vector<std::string> CheckProgress(const History& history, base::Instant calm,
                                       base::Instant until, absl::Duration bound);

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_HISTORY_CHECKER_H_
