// The baseline: a lock as one writes it without redlatch, over blocking connections of hiredis.
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
// publishes there. One thread.
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

// What is published on one channel, on a connection of its own. One thread.
class RawSubscription {
 public:
  // Returns when the server has confirmed it. `patience` bounds each AwaitMessage().
  static absl::StatusOr<RawSubscription> Open(const std::string& channel, absl::Duration patience);

  // The next message, by a blocking read. kDeadlineExceeded where none came in time, and then the
  // subscription is of no more use.
  absl::Status AwaitMessage();

  // Forgets the messages that are here already.
  absl::Status DropMessages();

 private:
  RawSubscription() = default;

  RawConnection connection_ = ConnectRaw();
};

// PUBLISH channel "", on any connection that isn't subscribed.
absl::Status RawPublish(redisContext& connection, const std::string& channel);

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_RAW_LOCK_H_
