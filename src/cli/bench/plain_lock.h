// A lock as one writes it without redlatch: what `redlatch bench` compares with.
#ifndef REDLATCH_SRC_CLI_BENCH_PLAIN_LOCK_H_
#define REDLATCH_SRC_CLI_BENCH_PLAIN_LOCK_H_

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/cli/bench/run.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::cli {

// The answer, within five seconds; an error reply is an error.
absl::StatusOr<redis::Reply> Ask(redis::PlainConnection& connection, const redis::Command& command,
                                 const BenchPlan& plan);

// SET NX PX, and a compare-and-delete by EVALSHA. One thread.
class PlainLock {
 public:
  PlainLock(redis::PlainConnection& connection, const BenchPlan& plan, const std::string& key,
            int owner);

  // Teaches the server the script.
  absl::Status Prepare() { return Ask(connection_, teach_, plan_).status(); }

  // Tries again at once as long as another has it; false where it never got it.
  absl::StatusOr<bool> Pair(const std::stop_token& stop);

 private:
  redis::PlainConnection& connection_;
  const BenchPlan& plan_;
  const std::string owner_;
  const redis::Command take_;
  const redis::Command release_;
  const redis::Command teach_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_PLAIN_LOCK_H_
