// The baseline: a lock written without redlatch, over blocking connections of hiredis.
#ifndef REDLATCH_BENCHMARKS_RAW_LOCK_H_
#define REDLATCH_BENCHMARKS_RAW_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmarks/bench_server.h"

namespace redlatch::bench {

inline constexpr absl::Duration kRawTtl = absl::Seconds(30);

// `SET key id NX PX 30000`, and a compare-and-delete by EVALSHA. With a channel, the release
// publishes there. For one thread.
class RawLock {
 public:
  static absl::StatusOr<RawLock> Open(std::string key, std::string id, std::string channel = "");

  absl::StatusOr<bool> TryAcquire();
  absl::Status Release();

 private:
  RawLock(std::string key, std::string id, std::string channel)
      : key_(std::move(key)), id_(std::move(id)), channel_(std::move(channel)) {}

  RawConnection connection_ = ConnectRaw();
  std::string key_;
  std::string id_;
  std::string channel_;
  std::string release_sha1_;
};

// The messages of one channel, on a connection of its own. For one thread.
class RawSubscription {
 public:
  // Returns when the server has confirmed it. `timeout` bounds each AwaitMessage().
  static absl::StatusOr<RawSubscription> Open(const std::string& channel, absl::Duration timeout);

  // Reads the next message, blocking. Returns kDeadlineExceeded if none came in time; the
  // subscription is then of no more use.
  absl::Status AwaitMessage();

  // Forgets the messages that have already arrived.
  absl::Status DropMessages();

 private:
  RawSubscription() = default;

  RawConnection connection_ = ConnectRaw();
};

// PUBLISH channel "", on any connection without subscriptions.
absl::Status RawPublish(redisContext& connection, const std::string& channel);

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_RAW_LOCK_H_
