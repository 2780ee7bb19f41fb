// The result of Inspect().
#ifndef REDLATCH_LOCK_INFO_H_
#define REDLATCH_LOCK_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "redlatch/fencing_token.h"

namespace redlatch {

// What the server knows about a lock or semaphore. It is meant for people to read, and may be out
// of date when it arrives.
struct LockInfo {
  // A client's own description of itself. It is UTF-8, may contain control characters, and proves
  // nothing.
  struct Process {
    std::string host;
    // The process id on that host. 0 if it is not known: for a foreign owner, or if a user has no
    // permission for the key that describes the client (see docs/operations.md).
    int64_t pid = 0;
    std::string program;
  };
  struct Party {
    std::string hold;  // <client>:<number>, or the text that a foreign owner has stored
    // The client's id, or "user:" and an Owner's name. It is "read" for a reader, begins with
    // "read" for a waiting reader, and is empty for a foreign owner.
    std::string owner;
    absl::Duration remaining;  // of a holder's lease, or infinite without one; zero for waiters
    int64_t permits = 1;       // of a semaphore
    // When the holder's client got the lock, or when the waiter's client asked for it, by the
    // server's clock, to within some ms. Infinite past if that is not known: for foreign holders,
    // readers and permits, and for a simple lock after a day.
    absl::Time since = absl::InfinitePast();
    // The holder's hold has ended, and the name stays taken for `remaining`, as
    // AcquireOptions::at_least or Lease::StayTaken() asked. `process` may have ended, too.
    bool stays_taken = false;
    Process process;
  };
  std::string kind;
  // The largest token that may have been handed out; the holder's may be smaller. 0: none.
  FencingToken last_token;
  // Empty if the lock is free. It has at most 100 elements: writers come first, then the others in
  // the order in which their leases end.
  std::vector<Party> holders;
  int64_t holding = 0;         // all of them
  std::vector<Party> waiters;  // in order; the first 50
  int64_t waiting = 0;         // all of them
  int64_t capacity = 0;        // of a semaphore: its permits
  int64_t used = 0;            // and how many of them are taken

  // How many permits are free. 0 while more permits are taken than the capacity allows, after it
  // was made smaller.
  int64_t available() const { return used < capacity ? capacity - used : 0; }
};

}  // namespace redlatch

#endif  // REDLATCH_LOCK_INFO_H_
