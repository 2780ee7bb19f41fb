#include "src/cli/bench/plain_lock.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/sha1.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kPlainPatience = absl::Seconds(5);
constexpr char kLeaseMillis[] = "5000";
constexpr std::string_view kRelease =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
    "return redis.call('DEL', KEYS[1])";

}  // namespace

absl::StatusOr<redis::Reply> Ask(redis::PlainConnection& connection, const redis::Command& command,
                                 const BenchPlan& plan) {
  absl::StatusOr<redis::Reply> reply = connection.Call(command, base::Now() + kPlainPatience);
  if (reply.ok() && reply->is_error()) {
    return redis::ErrorStatus(reply->text, plan.url.DebugString());
  }
  return reply;
}

PlainLock::PlainLock(redis::PlainConnection& connection, const BenchPlan& plan,
                     const std::string& key, int owner)
    : connection_(connection),
      plan_(plan),
      owner_(absl::StrCat(owner)),
      take_{"SET", key, owner_, "NX", "PX", kLeaseMillis},
      release_{"EVALSHA", base::Sha1Hex(kRelease), "1", key, owner_},
      teach_{"EVAL", kRelease, "1", key, owner_} {}

absl::StatusOr<bool> PlainLock::Pair(const std::stop_token& stop) {
  for (;;) {
    const absl::StatusOr<redis::Reply> taken = Ask(connection_, take_, plan_);
    if (!taken.ok()) return taken.status();
    if (!taken->is_nil()) break;
    if (stop.stop_requested()) return false;
  }
  absl::Status released = Ask(connection_, release_, plan_).status();
  if (!released.ok()) return released;
  return true;
}

}  // namespace redlatch::cli
