#ifndef REDLATCH_TESTS_SUPPORT_MESSAGES_FIXTURE_H_
#define REDLATCH_TESTS_SUPPORT_MESSAGES_FIXTURE_H_

#include "absl/base/thread_annotations.h"
#include "src/base/status.h"
#include "src/redis/link/connection.h"
#include "src/redis/url/url.h"
#include "tests/support/live_testing.h"

namespace redlatch::support {

// Records the callbacks of a Connection in order, one line each: "message CHANNEL TEXT", "down",
// "again", "refused CHANNEL". It must outlive the connection. Thread-safe.
class MessageRecorder {
 public:
  using Lines = std::vector<std::string>;
  static constexpr absl::Duration kAmpleTime = absl::Seconds(10);

  // `options` with callbacks that record, for a user who may only subscribe.
  redis::ConnectionOptions Options(redis::ConnectionOptions options = {}) {
    options.purpose = redis::Handshake::Purpose::kSubscriptions;
    options.on_message = [this](std::string_view channel, std::string_view message) {
      Record(absl::StrCat("message ", std::string(channel), " ", std::string(message)));
    };
    options.on_reconnected = [this] { Record("again"); };
    options.on_down = [this] { Record("down"); };
    options.on_refused = [this](std::string_view channel, const absl::Status& why) {
      Record(absl::StrCat("refused ", std::string(channel)), why);
    };
    return options;
  }

  Lines lines() const {
    const base::MutexLock lock(mu_);
    return lines_;
  }
  int Count(std::string_view line) const {
    const base::MutexLock lock(mu_);
    return CountLocked(line);
  }
  absl::Status why_refused() const {
    const base::MutexLock lock(mu_);
    return base::Unshared(why_refused_);
  }

  // Waits until the line was recorded that often. Returns false if it was not within `timeout`.
  bool Await(std::string_view line, int times = 1, absl::Duration timeout = kAmpleTime) const {
    const base::Instant deadline = base::Now() + timeout;
    const base::MutexLock lock(mu_);
    while (CountLocked(line) < times) {
      if (deadline <= base::Now()) return false;
      changed_.WaitUntil(mu_, deadline);
    }
    return true;
  }

  void Forget() {
    const base::MutexLock lock(mu_);
    lines_.clear();
  }

 private:
  void Record(std::string line, const absl::Status& why = absl::OkStatus()) {
    const base::MutexLock lock(mu_);
    if (!why.ok()) why_refused_ = base::Unshared(why);
    lines_.push_back(std::move(line));
    changed_.SignalAll();
  }
  int CountLocked(std::string_view line) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return static_cast<int>(std::count(lines_.begin(), lines_.end(), line));
  }

  mutable base::Mutex mu_;
  mutable base::CondVar changed_;
  Lines lines_ ABSL_GUARDED_BY(mu_);
  absl::Status why_refused_ ABSL_GUARDED_BY(mu_);
};

// A server, and a recorder.
struct MessagesFixture : ::testing::Test {
  static constexpr absl::Duration kAmpleTime = absl::Seconds(10);

  explicit MessagesFixture(RedisServerOptions options = {})
      : server_(RedisServer::Start(std::move(options))) {}

  static base::Instant Soon() { return base::Now() + kAmpleTime; }
  static base::Instant In(absl::Duration time) { return base::Now() + time; }

  std::unique_ptr<redis::Connection> Make(const std::string& url,
                                          redis::ConnectionOptions options = {}) {
    return std::make_unique<redis::Connection>(*redis::ParseUrl(url),
                                               recorder_.Options(std::move(options)));
  }

  // Returns how many receivers the server has sent it to.
  int64_t Publish(std::string_view channel, std::string_view message) {
    return server_->Integer({"PUBLISH", std::string(channel), std::string(message)});
  }
  int64_t KillSubscribed() { return server_->Integer({"CLIENT", "KILL", "TYPE", "pubsub"}); }

  const std::unique_ptr<RedisServer> server_;
  MessageRecorder recorder_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_MESSAGES_FIXTURE_H_
