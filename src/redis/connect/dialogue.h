#ifndef REDLATCH_SRC_REDIS_CONNECT_DIALOGUE_H_
#define REDLATCH_SRC_REDIS_CONNECT_DIALOGUE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/redis/transport/transport.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

// What is said over a transport that is connected, and what is heard. One thread at a time.
struct Dialogue {
  std::unique_ptr<Transport> transport;
  std::string unwritten;
  std::string unwritable;  // why a write failed
  ReplyParser parser;
  std::vector<Reply> replies;
  Interest read_wants = Interest::kRead;
  Interest write_wants = Interest::kNone;  // of the rest, when Write() was last called

  // Both never block. An error is the bare reason, and the connection is of no more use:
  // kFailedPrecondition where somebody must mend something first, else kUnavailable.

  // What the rest wants, which is kNone where all is written. Where the server hangs up, nothing is
  // left, since it may have said why before.
  Interest Write();
  // Whether anything came; what is whole of it is in `replies`, also where that is an error. To be
  // called when what it wants has come.
  absl::StatusOr<bool> Read();

  // Writes all, and reads until there are so many replies. False where `deadline` came first, or
  // `wake_fd` (or -1) became readable; the next call goes on.
  absl::StatusOr<bool> GoOn(size_t count, base::Instant deadline, int wake_fd = -1);
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_DIALOGUE_H_
