// What Inspect() tells.
#ifndef REDLATCH_LOCK_INFO_H_
#define REDLATCH_LOCK_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "redlatch/fencing_token.h"

namespace redlatch {

// What the server knows of a lock or semaphore, for people: it is out of date when it arrives.
struct LockInfo {
  struct Party {
    std::string hold;   // <client>:<number>, or what a foreign owner has stored
    std::string owner;  // the client, or "user:" and an Owner's name; empty for a foreign one; of a
                        // reader "read", and where it waits something that begins so
    absl::Duration remaining;  // of a holder's lease; infinite where it has none; zero for waiters
    int64_t permits = 1;       // of a semaphore
  };
  std::string kind;
  FencingToken last_token;     // the largest that can have been handed out; its holder's may be
                               // smaller; 0: none
  std::vector<Party> holders;  // empty: free
  std::vector<Party> waiters;  // in order; the first 100
  int64_t waiting = 0;         // all of them
  int64_t capacity = 0;        // of a semaphore: its permits
  int64_t used = 0;            // and how many of them are taken
};

}  // namespace redlatch

#endif  // REDLATCH_LOCK_INFO_H_
