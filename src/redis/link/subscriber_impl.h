#ifndef REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_IMPL_H_
#define REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/wake_event.h"
#include "src/redis/connect/comeback.h"
#include "src/redis/connect/connector.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

// A Subscriber within the process that made it; the same contracts.
class Subscriber::Impl {
 public:
  Impl(const Url& url, SubscriberOptions options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  // Threads that are not there any more may have been in the midst of it.
  void Abandon();

  absl::Status Subscribe(std::string_view channel, base::Instant deadline,
                         const std::stop_token& stop);
  absl::Status Unsubscribe(std::string_view channel, base::Instant deadline);
  void MakeAnew();
  uint32_t Await(base::Parker& parker, base::Instant deadline);
  void Stop();
  void Ping();
  bool live() const;
  std::optional<Peer> peer() const;
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
  struct ChannelRequest {
    Verb verb;
    SubscriptionPtr subscription;  // null for kPing
  };

  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllLive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  SubscriptionPtr Find(std::string_view channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(Subscription& subscription, absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Who reads: see subscriber_reader.cc.
  enum class Reader : uint8_t { kThread, kGuest, kNobody };
  void WakeReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Recall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool BecomeGuest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Readiness WaitAsThread(Transport::Interest interest, base::Instant deadline);
  Readiness WaitAsGuest(Transport::Interest interest, base::Instant deadline, base::Parker& parker);
  void StayAway() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // What follows runs on the thread.
  void Run();
  void SleepUntil(base::Instant deadline);
  void Connect();
  void NotConnected(const absl::Status& why);
  void Break();

  // What follows is the reader's.
  // One wait, and what came of it; `guest`, where there is one, ends the wait.
  void Serve(base::Parker* guest, base::Instant deadline);
  void Ask(const ChannelRequest& request);
  void Flush();
  void ReadSome();
  void Handle(const Reply& reply);
  void HandleAnswer(const Reply& reply);
  void HandleMessage(const std::string& channel, const std::string& message);
  void Refuse(Subscription& subscription, const absl::Status& why);
  void Restored();
  void Fail(std::string why) { broken_ = std::move(why); }

  const SubscriberOptions options_;
  const std::string server_;
  base::WakeEvent wake_;  // out of poll, whoever is there; opened before the thread starts

  mutable base::Mutex mu_;
  base::CondVar changed_;  // some subscription's state
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
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
  base::CondVar back_;                            // the thread, which stays away, is wanted
  bool recalled_ ABSL_GUARDED_BY(mu_) = false;
  bool sleeps_long_ ABSL_GUARDED_BY(mu_) = false;  // until it is recalled
  uint64_t guests_ ABSL_GUARDED_BY(mu_) = 0;       // so far
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;           // threads in Await()

  // The reader's own.
  Connector connector_;
  Comeback comeback_;
  std::unique_ptr<Transport> transport_;  // null: not connected
  std::optional<std::string> broken_;     // why the connection is to be given up
  std::optional<ReplyParser> parser_;
  std::string out_;                     // what is still to be written
  std::deque<ChannelRequest> pending_;  // sent, not answered
  base::Instant last_read_;  // or, where it is later, when `pending_` stopped being empty
  size_t restoring_ = 0;     // how many of `pending_` were subscribed when it connected
  bool lost_ = false;        // since on_live_again last ran
  const std::unique_ptr<char[]> buffer_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_IMPL_H_
