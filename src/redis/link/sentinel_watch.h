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

// Hears from one of a URL's sentinels, whichever answers, that its primary has moved. Connects, and
// starts its thread, with Begin(). Thread-safe; in a forked child it may only be destroyed.
class SentinelWatch {
 public:
  // Where the primary is by now, "127.0.0.1:6379"; empty where it may have moved unheard. Runs on
  // the watch's thread, and calls nothing of the watch.
  using Moved = std::function<void(std::string_view address)>;

  // `url`: of Kind::kSentinel.
  SentinelWatch(const Url& url, Moved moved);

  // Once is enough. Returns at once.
  void Begin() {
    if (!begun_.load(std::memory_order_relaxed)) BeginNow();
  }
  // Nothing is heard any more.
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
