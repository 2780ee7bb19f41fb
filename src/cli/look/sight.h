#ifndef REDLATCH_SRC_CLI_LOOK_SIGHT_H_
#define REDLATCH_SRC_CLI_LOOK_SIGHT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/lock_info.h"
#include "src/cli/look/lock_rows.h"
#include "src/cli/term/server.h"

namespace redlatch::cli {

// What one server of a quorum says of a lock.
struct SaidByServer {
  std::string server;    // its URL, without user and password
  absl::Status failure;  // why it says nothing
  std::string hold;      // that it has granted; empty: none
  std::string text;      // what it has to say, for people
  absl::Duration remaining = absl::ZeroDuration();
};

// All that can be seen of one lock.
struct Sight {
  bool exists = false;  // any of its keys
  // Nothing but the key itself is there, and it does not say that it is a lock: of a type that no
  // lock of redlatch alone has, or a string without end that is no hold. It may be anybody's data.
  bool may_be_data = false;
  LockRow row;
  LockInfo info;       // holders are not known of kinds that are a program's own
  int64_t now_us = 0;  // by the server's clock
  std::vector<SaidByServer> servers = {};  // of a quorum that was looked at as a whole

  absl::Time now() const { return absl::FromUnixMicros(now_us); }
};

// Of the lock whose key is `name`.
absl::StatusOr<Sight> LookClosely(Server& server, const std::string& name);

// Takes it from whoever has it. kUnimplemented for latches and kinds of a program's own.
absl::Status Break(const Server& server, const LockRow& row);

// Of the semaphore, for everyone who uses it.
absl::Status SetCapacity(const Server& server, const std::string& name, int64_t capacity);

// What such a key is, and what to do where it is a lock all the same.
std::string SayMayBeData(const LockRow& row);

// "the latch", "the semaphore", "the lock", and its name.
std::string Called(const LockRow& row);

// A holder's or waiter's line: who, since when, how long yet.
std::string LineOf(const LockInfo::Party& party, const Sight& sight);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_SIGHT_H_
