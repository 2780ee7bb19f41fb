#ifndef REDLATCH_SRC_REDIS_LINK_SENTINEL_WATCH_H_
#define REDLATCH_SRC_REDIS_LINK_SENTINEL_WATCH_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "src/redis/link/subscriber.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Learns from one of a URL's sentinels, whichever answers, that its primary has moved. Begin()
// connects and starts its thread. Thread-safe; in a forked child it may only be destroyed.
class SentinelWatch {
 public:
  // Gets the primary's new address, such as "127.0.0.1:6379"; empty if it may have moved unnoticed.
  // Runs on the watch's thread, and must not call the watch.
  using Moved = std::function<void(std::string_view address)>;

  // REQUIRES: `url` is of Kind::kSentinel.
  SentinelWatch(const Url& url, Moved moved);

  // Starts watching; further calls do nothing. Returns at once.
  void Begin() {
    if (!begun_.load(std::memory_order_relaxed)) BeginNow();
  }
  // `moved` is not called any more.
  void Stop() { subscriber_->Stop(); }

 private:
  void BeginNow();

  const std::string primary_;
  const Moved moved_;
  std::atomic<bool> begun_{false};
  const std::unique_ptr<Subscriber> subscriber_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SENTINEL_WATCH_H_
