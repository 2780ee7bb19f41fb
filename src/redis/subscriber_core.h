#ifndef REDLATCH_SRC_REDIS_SUBSCRIBER_CORE_H_
#define REDLATCH_SRC_REDIS_SUBSCRIBER_CORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/base/unique_fd.h"
#include "src/redis/codec.h"
#include "src/redis/connector.h"
#include "src/redis/reply.h"
#include "src/redis/subscriber.h"
#include "src/redis/transport.h"
#include "src/redis/url.h"

namespace redlatch::redis {

// A Subscriber within the process that made it; the same contracts.
class Subscriber::Core {
 public:
  Core(const Url& url, SubscriberOptions options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  // Threads that are not there any more may have been in the midst of it.
  void Abandon();

  absl::Status Subscribe(std::string_view channel, base::Instant deadline);
  absl::Status Unsubscribe(std::string_view channel, base::Instant deadline);
  bool live() const;
  Stats stats() const;

 private:
  static constexpr size_t kReadSize = size_t{16} << 10;

  enum class State : uint8_t { kAsked, kLive, kLeaving, kEnded };
  struct Subscription {  // guarded by the core's `mu_`, but for its name
    explicit Subscription(std::string_view name) : channel(name) {}
    const std::string channel;
    State state = State::kAsked;
    absl::Status end;  // kLeaving, kEnded: what a Subscribe() that waits is told
    // Somebody counts on it who does not wait: it was live, or Subscribe() has left it asked for.
    bool promised = false;
  };
  using SubscriptionPtr = std::shared_ptr<Subscription>;
  enum class Verb : uint8_t { kSubscribe, kUnsubscribe, kPing };
  struct Request {
    Verb verb;
    SubscriptionPtr subscription;  // null for kPing
  };

  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeThread() const;
  SubscriptionPtr Find(std::string_view channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(Subscription& subscription, absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // What follows runs on the thread.
  void Run();
  void SleepUntil(base::Instant deadline);
  void Connect();
  void NotConnected(const absl::Status& why);
  void Serve();
  void Ask(const Request& request);
  void Flush();
  void ReadSome();
  void Handle(const Reply& reply);
  void HandleAnswer(const Reply& reply);
  void HandleMessage(const std::string& channel, const std::string& message);
  void Refuse(Subscription& subscription, const absl::Status& why);
  void Restored();
  void Break(const std::string& why);

  const SubscriberOptions options_;
  const std::string server_;
  base::UniqueFd wake_fd_;  // set before the thread starts, and not changed any more

  mutable base::Mutex mu_;
  base::CondVar changed_;  // some subscription's state
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, SubscriptionPtr, std::less<>> subscriptions_ ABSL_GUARDED_BY(mu_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);  // to be sent, in this order
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  uint64_t refusals_ ABSL_GUARDED_BY(mu_) = 0;  // attempts that the server has refused
  Stats stats_ ABSL_GUARDED_BY(mu_);

  // The thread's own.
  Connector connector_;
  base::Backoff backoff_;
  base::Instant next_attempt_;
  std::unique_ptr<Transport> transport_;  // null: not connected
  std::optional<ReplyParser> parser_;
  std::string out_;              // what is still to be written
  std::deque<Request> pending_;  // sent, not answered
  base::Instant last_read_;      // or, where it is later, when `pending_` stopped being empty
  size_t restoring_ = 0;         // how many of `pending_` were subscribed when it connected
  bool lost_ = false;            // since on_live_again last ran
  const std::unique_ptr<char[]> buffer_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SUBSCRIBER_CORE_H_
