#ifndef REDLATCH_TESTS_SUPPORT_SUBSCRIBER_TEST_FIXTURE_H_
#define REDLATCH_TESTS_SUPPORT_SUBSCRIBER_TEST_FIXTURE_H_

#include "absl/base/thread_annotations.h"
#include "src/base/status.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/url/url.h"
#include "tests/support/live_testing.h"

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

// What the tests of the subscriber share: a server, and ears.
class SubscriberTestFixture : public ::testing::Test {
 protected:
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  explicit SubscriberTestFixture(RedisServerOptions options = {})
      : server_(RedisServer::Start(std::move(options))) {}

  static base::Instant Soon() { return base::Now() + kPatience; }
  static base::Instant In(absl::Duration time) { return base::Now() + time; }

  std::unique_ptr<redis::Subscriber> Make(const std::string& url,
                                          redis::SubscriberOptions options = {}) {
    return std::make_unique<redis::Subscriber>(*redis::ParseUrl(url),
                                               ears_.Options(std::move(options)));
  }

  // How many receivers the server has sent it to.
  int64_t Publish(std::string_view channel, std::string_view message) {
    return server_->Integer({"PUBLISH", std::string(channel), std::string(message)});
  }
  // Messages may be lost until the connection is there: publishes until one is heard.
  bool ArrivesSoon(std::string_view channel) {
    return support::Await([&, i = 0]() mutable {
      const std::string message = absl::StrCat("probe ", ++i);
      const std::string line = absl::StrCat("message ", std::string(channel), " ", message);
      return Publish(channel, message) > 0 && ears_.Await(line, 1, absl::Milliseconds(100));
    });
  }

  int64_t KillSubscribers() { return server_->Integer({"CLIENT", "KILL", "TYPE", "pubsub"}); }

  // A thread that was joined may be seen in /proc a moment longer.
  static bool AwaitThreads(int count) {
    return Await([&] { return ThreadCount() == count; });
  }

  // Until a proxy holds bytes back.
  static bool AwaitWaiting(const TcpProxy& proxy) {
    return proxy.Await([](const ProxyStats& stats) { return stats.bytes_waiting > 0; });
  }

  const std::unique_ptr<RedisServer> server_;
  SubscriberEars ears_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_SUBSCRIBER_TEST_FIXTURE_H_
