#ifndef REDLATCH_SRC_REDIS_SUBSCRIBER_H_
#define REDLATCH_SRC_REDIS_SUBSCRIBER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/base/unique_fd.h"
#include "src/redis/codec.h"
#include "src/redis/connector.h"
#include "src/redis/reply.h"
#include "src/redis/transport.h"
#include "src/redis/url.h"

namespace redlatch::redis {

// The three callbacks run on the subscriber's thread, one at a time. They are redlatch's own code,
// never a user's: they return at once and do not call the subscriber.
struct SubscriberOptions {
  std::function<void(std::string_view channel, std::string_view message)> on_message;
  // Every subscription is live after the connection was lost or could not be made: what was
  // published meanwhile is lost, and whoever waits for a message must look for himself now.
  std::function<void()> on_live_again;
  // The connection was lost, or could not be made.
  std::function<void(const absl::Status& why)> on_down;

  // A connection on which nothing came for so long is asked whether it is alive.
  absl::Duration ping_interval = absl::Seconds(10);
  // Where something is due and nothing comes for so long, the connection is given up.
  absl::Duration answer_timeout = absl::Seconds(2);
  absl::Duration first_backoff = absl::Milliseconds(10);
  absl::Duration longest_backoff = absl::Seconds(1);
  TransportFactory open = OpenSocket;
};

// One connection to a server that receives what is published there, and the thread that reads it.
// Both begin with the first Subscribe(). A lost connection is made again, with jittered backoff,
// for as long as there is a subscription, and everything is subscribed anew.
//
//   a channel is     Subscribe()                     Unsubscribe()
//   unknown          asked for; OK when live         OK at once
//   asked for        joins the wait                  forgotten; its Subscribe() ends kCancelled
//   live             OK at once                      OK when the server has acknowledged
//
// Thread-safe, but for destruction. In a forked child every call fails with kFailedPrecondition.
class Subscriber {
 public:
  Subscriber(const Url& url, SubscriberOptions options);
  // Ends the thread; no callback runs afterwards. In a forked child it only closes.
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  // OK when the server has acknowledged: what is published to `channel` from here on arrives, for
  // as long as the connection lives. kUnavailable at `deadline`: the channel stays asked for, and
  // becomes live when the server can be reached. Where the server refuses (no permission for the
  // channel, wrong password) its error, and the channel is forgotten.
  absl::Status Subscribe(std::string_view channel, base::Instant deadline);

  // After OK no message of `channel` is delivered any more.
  absl::Status Unsubscribe(std::string_view channel, base::Instant deadline);

  // Connected, and every subscription acknowledged.
  bool live() const;

  struct Stats {
    uint64_t connects = 0;
    uint64_t breaks = 0;
    uint64_t messages = 0;
  };
  Stats stats() const;

 private:
  static constexpr size_t kReadSize = size_t{16} << 10;

  enum class State : uint8_t { kAsked, kLive, kLeaving, kEnded };
  struct Subscription {
    std::string channel;
    State state = State::kAsked;  // guarded by the subscriber's `mu_`
    absl::Status end;             // kEnded: why
  };
  using SubscriptionPtr = std::shared_ptr<Subscription>;
  enum class Verb : uint8_t { kSubscribe, kUnsubscribe, kPing };
  struct Request {
    Verb verb;
    SubscriptionPtr subscription;  // null for kPing
  };

  absl::Status Refusal() const;
  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeThread() const;
  // Waits until `subscription` is no longer in the state `from`; false at the deadline.
  bool AwaitChange(const Subscription& subscription, State from, base::Instant deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(Subscription& subscription, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

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
  void AnnounceWhenLive();
  void Break(const std::string& why);

  const base::ForkGuard fork_guard_;
  const SubscriberOptions options_;
  const std::string server_;
  const base::UniqueFd wake_fd_;

  mutable base::Mutex mu_;
  base::CondVar changed_;  // some subscription's state
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, SubscriptionPtr, std::less<>> subscriptions_ ABSL_GUARDED_BY(mu_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);  // to be sent, in this order
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
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
  bool lost_ = false;            // since on_live_again last ran
  const std::unique_ptr<char[]> buffer_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SUBSCRIBER_H_
