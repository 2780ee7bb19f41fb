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
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/poll_gate.h"
#include "src/base/wake_event.h"
#include "src/redis/connect/connector.h"
#include "src/redis/link/subscriber_thread.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// The callbacks run on the subscriber's thread, or on one in Await(), one at a time. They are
// redlatch's own code, never a user's: they return at once and do not call the subscriber.
struct SubscriberOptions {
  std::function<void(std::string_view channel, std::string_view message)> on_message;
  // After the connection was lost, or could not be made, all that was subscribed by then is live:
  // what was published meanwhile is lost, and whoever waits for a message must look for himself
  // now. Once for each loss.
  std::function<void()> on_live_again;
  // What was published before the first connection may have been missed as well.
  bool first_is_again = false;
  // The connection was lost, or could not be made.
  std::function<void(const absl::Status& why)> on_down;
  // The server does not permit this client a channel that was live, or that Subscribe() has left
  // asked for: it is forgotten.
  std::function<void(std::string_view channel, const absl::Status& why)> on_refused;
  // The channels are a cluster's, each in a slot, and are served by whoever serves that. One that
  // was live and is served elsewhere by now is forgotten: on_refused.
  bool sharded = false;

  // A connection on which nothing came for so long is asked whether it is alive. Rarely, since each
  // client that waits pays for it, and whoever misses a message has a heartbeat to find out.
  absl::Duration ping_interval = absl::Seconds(30);
  // Where something is due and nothing comes for so long, the connection is given up.
  absl::Duration answer_timeout = absl::Seconds(2);
  absl::Duration first_backoff = absl::Milliseconds(10);
  absl::Duration longest_backoff = absl::Seconds(1);
  // Where to connect to, if that is known; see Connector.
  Whereabouts where;
  TransportFactory open;  // empty: OpenTransport()
  // Which reads it, beside others; null: one of its own.
  std::shared_ptr<SubscriberThread> thread;
};

// One connection to a server that receives what is published there, and the thread that reads it.
// Both begin with the first Subscribe(). A lost connection is made again, at once or with jittered
// backoff (reconnect_backoff.h), for as long as there is a subscription, and everything is
// subscribed anew.
//
//   a channel is     Subscribe()                     Unsubscribe()
//   unknown          asked for; OK when live         OK at once
//   asked for        joins the wait                  forgotten; its Subscribe() ends kCancelled
//   live             OK at once                      OK when the server has acknowledged
//   being left       asked for anew                  joins the wait
//
// What was live once, or left to become so, is tried for until it is unsubscribed, also while the
// server refuses this client altogether: a password may be changed back.
//
// Thread-safe, but for destruction, which no call may overlap. In a forked child every call fails
// with kFailedPrecondition; it may at any time delete a subscriber that was made by `new`.
class Subscriber final : private SubscriberThread::Listener {
 public:
  // No `endpoint`: where the URL leads.
  Subscriber(const Url& url, SubscriberOptions options,
             std::unique_ptr<Endpoint> endpoint = nullptr);
  ~Subscriber();  // stops
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  // Threads that are not there any more may have been in the midst of it.
  static void operator delete(Subscriber* subscriber, std::destroying_delete_t);
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  // OK when the server has acknowledged: what is published to `channel` from here on arrives, for
  // as long as the connection lives. kUnavailable at `deadline`: the channel stays asked for, and
  // becomes live when the server can be reached. Where the server refuses (no permission for the
  // channel, wrong password) its error, at once, and a channel that was unknown is forgotten.
  // A requested stop ends the wait as the deadline does.
  absl::Status Subscribe(std::string_view channel, base::Instant deadline,
                         const std::stop_token& stop = {});

  // After OK no message of `channel` is delivered any more.
  absl::Status Unsubscribe(std::string_view channel, base::Instant deadline);

  // For whoever was told that messages do not arrive, though the connection seems to be fine: a new
  // one is made, and everything is subscribed anew, whereupon on_live_again is called. Returns at
  // once. Does nothing unless all subscriptions are live: otherwise that is under way already.
  void MakeAnew();

  // The server is asked whether the connection is alive, now rather than after a ping_interval.
  void Ping();

  // Sleeps until the parker, which the caller has armed, is set, or `deadline` comes; its value.
  // For a thread that waits for a message: where it is the only one, it reads the connection itself
  // meanwhile, and is spared the hop from the subscriber's thread. The callbacks may run on it.
  uint32_t Await(base::Parker& parker, base::Instant deadline);

  // Has the callbacks run here and now for what has come, unless a thread is just reading. For
  // whoever is busy with what this client attends to: the thread that would be woken to read may
  // not get a processor for some milliseconds.
  void Look();

  // From here on, or no longer, messages are to be heard at once though nobody awaits any: guests
  // do not leave them unread, and silence is noticed within two seconds.
  void Attend(bool begins);

  // Leaves the thread; no callback runs on it afterwards. What was armed for Await() may still be
  // set.
  void Stop();

  // Connected, and every subscription acknowledged.
  bool live() const;

  // Whom it is connected to, and since when all that was subscribed by then is live; nothing while
  // that is not so.
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
    absl::Status end;  // kLeaving, kEnded: what a Subscribe() that waits is told
    // Somebody counts on it who does not wait: it was live, or Subscribe() has left it asked for.
    bool promised = false;
  };
  using SubscriptionPtr = std::shared_ptr<Subscription>;
  enum class Verb : uint8_t { kSubscribe, kUnsubscribe, kPing };
  struct ChannelRequest {
    Verb verb;
    SubscriptionPtr subscription;  // null for kPing
  };

  absl::Status Refusal() const;
  // Whose threads are not there: nobody has the mutex, though it may be locked.
  void LeaveGateInForkedChild() ABSL_NO_THREAD_SAFETY_ANALYSIS { gate_.Leave(); }
  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllLive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  SubscriptionPtr Find(std::string_view channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(Subscription& subscription, absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Which thread reads.
  enum class Reader : uint8_t { kThread, kGuest, kNobody };
  void WakeReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Recall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Nobody reads, or the thread does and is asleep.
  bool Vacant() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool BecomeGuest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Readiness WaitAsGuest(const Awaited& awaited, base::Parker& parker);
  bool StaysAway(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool OpenGate(const Awaited& awaited) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // What follows runs on the thread.
  Awaited Turn(const Readiness& ready, int wake_fd) override;
  std::optional<Awaited> Connect(int wake_fd);
  void NotConnected(const absl::Status& why);
  void Break();

  // What follows is the reader's.
  // What is to be said, and then what to wait for; and what came of it.
  Awaited Prepare(base::Instant deadline);
  void Take(const Readiness& ready);
  // How long an answer that is due may be awaited.
  absl::Duration Patience() const;
  void Ask(const ChannelRequest& request);
  void ReadSome();
  void Handle(const Reply& reply);
  void HandleAnswer(const Reply& reply);
  void HandleMessage(const std::string& channel, const std::string& message);
  void Refuse(Subscription& subscription, const absl::Status& why);
  bool IsLeftBehind(const Reply& reply) const;
  bool AnswersWhatWasLeft(const Reply& reply);
  void LeaveBehind(const std::string& channel);
  void Restored();
  void Fail(std::string why) { broken_ = std::move(why); }

  const base::ForkGuard fork_guard_;
  const SubscriberOptions options_;
  const std::string server_;
  const std::shared_ptr<SubscriberThread> thread_;
  base::WakeEvent wake_;  // a guest out of poll

  mutable base::Mutex mu_;
  base::CondVar changed_;                    // some subscription's state
  bool begun_ ABSL_GUARDED_BY(mu_) = false;  // the thread serves it
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  bool make_anew_ ABSL_GUARDED_BY(mu_) = false;  // the reader is to give the connection up
  bool ping_ ABSL_GUARDED_BY(mu_) = false;       // the reader is to ask
  std::optional<Peer> peer_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, SubscriptionPtr, std::less<>> subscriptions_ ABSL_GUARDED_BY(mu_);
  std::vector<ChannelRequest> requests_ ABSL_GUARDED_BY(mu_);  // to be sent, in this order
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  uint64_t refusals_ ABSL_GUARDED_BY(mu_) = 0;  // attempts that the server has refused
  Stats stats_ ABSL_GUARDED_BY(mu_);

  Reader reader_ ABSL_GUARDED_BY(mu_) = Reader::kThread;
  bool relievable_ ABSL_GUARDED_BY(mu_) = false;  // the thread reads, and is asleep
  bool recalled_ ABSL_GUARDED_BY(mu_) = false;    // the thread, which stays away, is wanted
  base::PollGate gate_ ABSL_GUARDED_BY(mu_);      // of the present connection
  bool at_gate_ ABSL_GUARDED_BY(mu_) = false;     // the thread is asleep there
  std::optional<base::Instant> nap_until_ ABSL_GUARDED_BY(mu_);  // while it stays away
  uint64_t guests_at_nap_ ABSL_GUARDED_BY(mu_) = 0;              // when that began
  uint64_t guests_ ABSL_GUARDED_BY(mu_) = 0;                     // so far
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;                         // threads in Await()
  int attending_ ABSL_GUARDED_BY(mu_) = 0;
  // Something was attended to, and is likely to be again.
  bool uses_gate_ ABSL_GUARDED_BY(mu_) = false;

  // The reader's own.
  Connector connector_;
  ReconnectBackoff reconnect_;
  Dialogue dialogue_;                   // without a transport: not connected
  std::vector<Reply> arrived_;          // being handled
  std::optional<std::string> broken_;   // why the connection is to be given up
  std::deque<ChannelRequest> pending_;  // sent, not answered
  std::optional<Slot> left_;            // of the channel that was the last to be left
  bool attended_ = false;               // as of the last look
  base::Instant last_read_;  // or, where it is later, when `pending_` stopped being empty
  size_t restoring_ = 0;     // how many of `pending_` were subscribed when it connected
  bool lost_;                // since on_live_again last ran
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_H_
