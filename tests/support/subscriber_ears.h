#ifndef REDLATCH_TESTS_SUPPORT_SUBSCRIBER_EARS_H_
#define REDLATCH_TESTS_SUPPORT_SUBSCRIBER_EARS_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/redis/link/subscriber.h"

namespace redlatch::support {

// Hears the callbacks of a Subscriber and keeps them in order, a line each: "message CHANNEL TEXT",
// "down", "live again", "refused CHANNEL". Outlives the subscriber. Thread-safe.
class SubscriberEars {
 public:
  using Lines = std::vector<std::string>;
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  // `options` with these ears as the callbacks.
  redis::SubscriberOptions Options(redis::SubscriberOptions options = {}) {
    options.on_message = [this](std::string_view channel, std::string_view message) {
      Hear(absl::StrCat("message ", std::string(channel), " ", std::string(message)));
    };
    options.on_live_again = [this] { Hear("live again"); };
    options.on_down = [this](const absl::Status& why) {
      Hear("down", &SubscriberEars::why_down_, why);
    };
    options.on_refused = [this](std::string_view channel, const absl::Status& why) {
      Hear(absl::StrCat("refused ", std::string(channel)), &SubscriberEars::why_refused_, why);
    };
    return options;
  }

  Lines heard() const {
    const base::MutexLock lock(mu_);
    return lines_;
  }
  int Count(std::string_view line) const {
    const base::MutexLock lock(mu_);
    return CountLocked(line);
  }
  absl::Status why_down() const {  // the latest
    const base::MutexLock lock(mu_);
    return base::Unshared(why_down_);
  }

  absl::Status why_refused() const {
    const base::MutexLock lock(mu_);
    return base::Unshared(why_refused_);
  }

  // Waits until the line was heard so often; false where it never is.
  bool Await(std::string_view line, int times = 1, absl::Duration patience = kPatience) const {
    const base::Instant deadline = base::Now() + patience;
    const base::MutexLock lock(mu_);
    while (CountLocked(line) < times) {
      if (deadline <= base::Now()) return false;
      heard_more_.WaitUntil(mu_, deadline);
    }
    return true;
  }

  void Forget() {
    const base::MutexLock lock(mu_);
    lines_.clear();
  }

 private:
  void Hear(std::string line, absl::Status SubscriberEars::*kept = nullptr,
            const absl::Status& why = absl::OkStatus()) {
    const base::MutexLock lock(mu_);
    if (kept != nullptr) this->*kept = base::Unshared(why);
    lines_.push_back(std::move(line));
    heard_more_.SignalAll();
  }
  int CountLocked(std::string_view line) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return static_cast<int>(std::count(lines_.begin(), lines_.end(), line));
  }

  mutable base::Mutex mu_;
  mutable base::CondVar heard_more_;
  Lines lines_ ABSL_GUARDED_BY(mu_);
  absl::Status why_refused_ ABSL_GUARDED_BY(mu_);
  absl::Status why_down_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_SUBSCRIBER_EARS_H_
