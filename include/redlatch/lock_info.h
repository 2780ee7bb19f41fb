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
  // What a client has told of itself. UTF-8, but whatever the client chose to say: it may hold
  // control characters, and it proves nothing.
  struct Process {
    std::string host;
    int64_t pid = 0;  // on that host; 0: not known, as of a foreign owner, or where the server's
                      // rules withhold it, see docs/operations.md
    std::string program;
  };
  struct Party {
    std::string hold;   // <client>:<number>, or what a foreign owner has stored
    std::string owner;  // the client, or "user:" and an Owner's name; empty for a foreign one; of a
                        // reader "read", and where it waits something that begins so
    absl::Duration remaining;  // of a holder's lease; infinite where it has none; zero for waiters
    int64_t permits = 1;       // of a semaphore
    // When a holder's client got it, when a waiter's came, by the server's clock, within some ms;
    // infinite past: not known, as of foreign holders, of readers and of permits, for which nothing
    // is written down that could tell, and after a day of a simple lock.
    absl::Time since = absl::InfinitePast();
    Process process;
  };
  std::string kind;
  FencingToken last_token;     // the largest that can have been handed out; its holder's may be
                               // smaller; 0: none
  std::vector<Party> holders;  // empty: free; 100 at most: writers, then whose lease ends first
  int64_t holding = 0;         // all of them
  std::vector<Party> waiters;  // in order; the first 50
  int64_t waiting = 0;         // all of them
  int64_t capacity = 0;        // of a semaphore: its permits
  int64_t used = 0;            // and how many of them are taken
};

}  // namespace redlatch

#endif  // REDLATCH_LOCK_INFO_H_
