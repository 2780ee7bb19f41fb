#ifndef REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_H_
#define REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/wake_event.h"
#include "src/redis/connect/connector.h"
#include "src/redis/link/subscriber_thread.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// The callbacks run on the subscriber's thread, or on one in Await(), one at a time. They are
// redlatch's own code, never a user's. They must return at once and not call the subscriber.
struct SubscriberOptions {
  std::function<void(std::string_view channel, std::string_view message)> on_message;
  // After a loss of the connection, or a failure to make it, all subscriptions are live again.
  // Messages published meanwhile are lost: every waiter must now ask the server. Called once per
  // loss.
  std::function<void()> on_live_again;
  // Messages published before the first connection may be missed, too: call on_live_again for it.
  bool first_is_again = false;
  // The connection was lost, or could not be made.
  std::function<void(const absl::Status& why)> on_down;
  // The server denies this client a channel that was live, or for which Subscribe() still tried:
  // the channel is forgotten.
  std::function<void(std::string_view channel, const absl::Status& why)> on_refused;
  // The channels are a cluster's, each in a slot. If a live channel's slot moves to another server,
  // the channel is forgotten: on_refused.
  bool sharded = false;

  // If nothing came for that long, the connection is pinged. The interval is long, since every
  // waiting client pays for a ping, and a client that misses a message finds out at its next
  // heartbeat.
  absl::Duration ping_interval = absl::Seconds(30);
  // If a reply is due and nothing comes for that long, the connection is given up.
  absl::Duration answer_timeout = absl::Seconds(2);
  absl::Duration first_backoff = absl::Milliseconds(10);
  absl::Duration longest_backoff = absl::Seconds(1);
  // The address to connect to, if it is known; see Connector.
  Whereabouts where;
  TransportFactory open;  // empty: OpenTransport()
  // The thread that reads the connection, and others; null: a thread of its own.
  std::shared_ptr<SubscriberThread> thread;
};

// One connection to a server that receives messages, and the thread that reads it. Both start with
// the first Subscribe(). A lost connection is made again, at once or with jittered back-off (see
// ReconnectBackoff), while there is a subscription, and everything is subscribed again.
//
//   a channel is     Subscribe()                     Unsubscribe()
//   unknown          asked for; OK when live         OK at once
//   asked for        joins the wait                  forgotten; its Subscribe() ends kCancelled
//   live             OK at once                      OK when the server has acknowledged
//   being left       asked for again                 joins the wait
//
// A channel that was once live, or whose Subscribe() ended early, is tried until it is
// unsubscribed, even while the server refuses this client: a password may be changed back.
//
// Thread-safe, except for destruction, which no call may overlap. A forked child makes no call; it
// may at any time delete a subscriber that was made by `new`.
class Subscriber final : private SubscriberThread::Listener {
 public:
  // Default `endpoint`: the URL's.
  Subscriber(const Url& url, SubscriberOptions options, Endpoint endpoint = nullptr);
  ~Subscriber();  // calls Stop()
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else. A
  // thread of the parent may have been inside this object during the fork.
  static void operator delete(Subscriber* subscriber, std::destroying_delete_t);
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  // OK when the server has acknowledged: from here on, messages of `channel` arrive, as long as the
  // connection lives. kUnavailable at `deadline`: the subscription continues in the background. If
  // the server refuses (no permission for the channel, wrong password), its error is returned at
  // once, and a channel that was unknown is forgotten. A requested stop ends the wait as the
  // deadline does.
  absl::Status Subscribe(std::string_view channel, base::Instant deadline,
                         const std::stop_token& stop = {});

  // After OK no further message of `channel` is delivered.
  absl::Status Unsubscribe(std::string_view channel, base::Instant deadline);

  // For a caller that knows that messages do not arrive, though the connection seems to work. Makes
  // a new connection and subscribes everything again, then calls on_live_again. Returns at once.
  // Does nothing unless all subscriptions are live: otherwise this is in progress already.
  void ReplaceConnection();

  // Pings the server now, rather than after ping_interval.
  void Ping();

  // Sleeps until the parker, which the caller has armed, is set or `deadline` comes; returns its
  // value. A thread that is the only one to wait reads the connection itself meanwhile, which saves
  // the hop from the subscriber's thread. The callbacks may run on it.
  uint32_t Await(base::Parker& parker, base::Instant deadline);
  // The same for messages of several subscribers at once.
  static uint32_t AwaitAny(absl::Span<Subscriber* const> all, base::Parker& parker,
                           base::Instant deadline);

  // Between a call that begins it and one that ends it, messages are read at once, even if no
  // thread awaits one: only the subscriber's thread reads, and it notices a silent connection
  // within two seconds.
  void KeepReading(bool begins);

  // Leaves the thread; no callback runs on it afterwards. Parkers in Await() may still be set.
  void Stop();

  // True if it is connected and every subscription is acknowledged.
  bool live() const;

  // The server that it is connected to, and since when all subscriptions of that time are live;
  // nothing if a subscription is not live.
  std::optional<Peer> peer() const;

  struct Stats {
    uint64_t connects = 0;
    uint64_t breaks = 0;
    uint64_t messages = 0;
  };
  Stats stats() const;

 private:
  enum class State : uint8_t { kAsked, kLive, kLeaving, kEnded };
  struct Subscription {  // guarded by `mu_`, but for its name
    explicit Subscription(std::string_view name) : channel(name) {}
    const std::string channel;
    State state = State::kAsked;
    absl::Status end;  // kLeaving, kEnded: the result of a Subscribe() that waits
    // A caller counts on it without waiting: it was live, or Subscribe() ended before it was.
    bool promised = false;
  };
  using SubscriptionPtr = std::shared_ptr<Subscription>;
  enum class Verb : uint8_t { kSubscribe, kUnsubscribe, kPing };
  struct ChannelRequest {
    Verb verb;
    SubscriptionPtr subscription;  // null for kPing
  };

  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllLive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return connected_ && asked_ == 0; }
  SubscriptionPtr Find(std::string_view channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Set(Subscription& subscription, State state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(Subscription& subscription, absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Which thread reads.
  enum class Reader : uint8_t { kThread, kWaiter, kNone };
  void WakeReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BringThreadBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool BecomeReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool BeginAwaiting();
  class Reading;
  void Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Readiness WaitAsReader(const Awaited& awaited, base::Parker& parker);
  bool StaysAway(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // These run on the subscriber's thread.
  Awaited Serve(const Readiness& ready, int wake_fd) override;
  std::optional<Awaited> Connect(int wake_fd);
  void NotConnected(const absl::Status& why);
  void Break();

  // The reader calls these. Prepare() sends what is due and says what to wait for; Take() handles
  // what came.
  Awaited Prepare(base::Instant deadline);
  void Take(const Readiness& ready);
  // How long to wait for a reply that is due.
  absl::Duration AnswerTimeout() const;
  void Ask(const ChannelRequest& request);
  void ReadSome();
  void Handle(const Reply& reply);
  void HandleAnswer(const Reply& reply);
  void HandleMessage(const std::string& channel, const std::string& message);
  void Refuse(Subscription& subscription, const absl::Status& why);
  bool IsEndedByServer(const Reply& reply) const;
  bool AnswersEndedSubscription(const Reply& reply);
  void EndByServer(const std::string& channel);
  void Restored();
  void Fail(std::string why) { broken_ = std::move(why); }

  const base::ForkGuard fork_guard_;
  const SubscriberOptions options_;
  const std::string server_;
  const std::shared_ptr<SubscriberThread> thread_;
  base::WakeEvent wake_;  // ends the poll of a waiter that reads

  mutable base::Mutex mu_;
  base::CondVar changed_;                    // a subscription's state has changed
  bool begun_ ABSL_GUARDED_BY(mu_) = false;  // the thread serves this subscriber
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  bool replace_ ABSL_GUARDED_BY(mu_) = false;  // the reader must give the connection up
  bool ping_ ABSL_GUARDED_BY(mu_) = false;     // the reader must ping
  std::optional<Peer> peer_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, SubscriptionPtr, std::less<>> subscriptions_ ABSL_GUARDED_BY(mu_);
  size_t asked_ ABSL_GUARDED_BY(mu_) = 0;                      // how many of them are kAsked
  std::vector<ChannelRequest> requests_ ABSL_GUARDED_BY(mu_);  // to send, in this order
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  uint64_t refusals_ ABSL_GUARDED_BY(mu_) = 0;  // how many attempts the server has refused
  Stats stats_ ABSL_GUARDED_BY(mu_);

  Reader reader_ ABSL_GUARDED_BY(mu_) = Reader::kThread;
  bool relievable_ ABSL_GUARDED_BY(mu_) = false;   // the thread reads and is asleep
  bool must_return_ ABSL_GUARDED_BY(mu_) = false;  // the thread stays away and must return
  std::optional<base::Instant> nap_until_ ABSL_GUARDED_BY(mu_);  // while it stays away
  uint64_t waiter_reads_at_nap_ ABSL_GUARDED_BY(mu_) = 0;        // when that began
  uint64_t waiter_reads_ ABSL_GUARDED_BY(mu_) = 0;               // so far
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;                         // threads in Await()
  int keep_reading_ ABSL_GUARDED_BY(mu_) = 0;

  // Used by the reader.
  Connector connector_;
  ReconnectBackoff reconnect_;
  Dialogue dialogue_;                   // no transport: not connected
  std::vector<Reply> arrived_;          // being handled
  std::optional<std::string> broken_;   // why the connection must be given up
  std::deque<ChannelRequest> pending_;  // sent, not answered
  std::optional<Slot> left_;            // of the channel that was left last
  bool keeps_reading_ = false;          // `keep_reading_ > 0`, as last seen
  base::Instant last_read_;             // or, if later, when `pending_` stopped being empty
  size_t restoring_ = 0;                // how many of `pending_` restore subscriptions
  bool lost_;                           // messages, since on_live_again last ran
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_H_
