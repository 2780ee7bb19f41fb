#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Finds out if messages reach this client. A script that the client runs over its command
// connection tells if the server that runs it has a subscriber of the client's channel. If it has
// none, though the subscription is live, the two connections lead to two servers.
//
//   the server says that there is                      result
//   a subscriber                                       messages arrive (again)
//   none, three times, 50 ms apart                     both connections are replaced
//   none, three times, after each of two such rounds   the client is unsubscribed: waiters poll
//   none, while unsubscribed                           both are replaced, with back-off
//
// Not thread-safe.
class SubscriptionCheck {
 public:
  enum class Verdict : uint8_t {
    kNothingNew,
    kReplaceConnections,  // both of them
    kUnsubscribed,        // from here on
    kSubscribedAgain,     // it was unsubscribed
  };

  // Notes an answer. `sent`: when the question was sent. `live`: since when all subscriptions are
  // live, Infinite() if they are not.
  Verdict Note(bool has_subscriber, base::Instant sent, base::Instant live, base::Instant now);

  bool unsubscribed() const { return unsubscribed_; }

 private:
  static constexpr int kTimes = 3;
  static constexpr int kRounds = 3;
  static constexpr absl::Duration kApart = absl::Milliseconds(50);

  int times_ = 0;   // in this round
  int rounds_ = 0;  // so far
  base::Instant counted_;
  bool unsubscribed_ = false;
  base::Instant next_try_;
  base::Backoff backoff_{absl::Seconds(2), absl::Minutes(1)};
};

// What a cluster needs from one of its nodes: a thread that reads messages for all nodes, and
// events, which are called as ServerGroup::Events are.
struct Membership {
  std::shared_ptr<SubscriberThread> thread;
  // The node no longer sends messages on that channel, or never did.
  std::function<void(std::string_view channel)> on_silent;
  // The node cannot be reached.
  std::function<void()> on_down;
};

// One server that has all keys, at the URL's address; with sentinels, the present primary.
// Connects, and starts its thread, when it is first used: its events need not be ready sooner.
//
// In a forked child it is destroyed, though a thread of the parent may have been inside it during
// the fork. So no member's destructor may do anything there, except those of the connections, which
// check for it.
class SingleServer final : public ServerGroup {
 public:
  // `channel`: the channel of the client's messages. `begin`, `first`: see
  // SharedConnectionOptions. `mark`: see AckedConnection. `node`: for a node of a cluster.
  SingleServer(const Url& url, std::string channel, std::optional<FirstScript> begin,
               std::vector<Command> first, AckedConnection::Mark mark, Events events,
               Membership node = {});
  SingleServer(const SingleServer&) = delete;
  SingleServer& operator=(const SingleServer&) = delete;

  ServerFacts facts(std::string_view) const override;
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  using ServerGroup::Run;
  void Run(absl::Span<const ScriptCall> calls, base::Instant deadline,
           absl::Span<absl::StatusOr<Reply>> results, StillWanted still_wanted) override {
    if (watch_ != nullptr) BeginWatch();
    runner_.Run(calls, deadline, results, still_wanted);
  }
  bool Drain(base::Instant until) override { return commands_->Drain(until); }
  void BeginPoll(std::vector<Transport::Polled>& polled) override {
    polled.push_back(commands_->BeginPoll());
  }
  Realigned Realign() override;
  void Stop() override;

  Subscription subscription(std::string_view) const override;
  absl::Status Subscribe(std::string_view, base::Instant deadline,
                         const std::stop_token& stop) override {
    return SubscribeTo({}, channel_, deadline, stop);
  }
  void KeepReading(std::string_view, bool begins) override { messages_->KeepReading(begins); }
  Subscriber* MessagesOf(std::string_view) override { return messages_.get(); }
  uint32_t Await(std::string_view, base::Parker& parker, base::Instant deadline) override {
    return messages_->Await(parker, deadline);
  }
  void NoteSign(std::string_view key, SubscriptionSign sign, base::Instant since) override;

  absl::Status SubscribeTo(std::string_view, const std::string& channel, base::Instant deadline,
                           const std::stop_token& stop) override;
  void Forget(const std::string& channel) override {
    messages_->Unsubscribe(channel, base::Now()).IgnoreError();
  }
  // True if there is a connection for commands.
  bool connected() const { return commands_->peer().has_value(); }
  // True if the connection for messages is there, with all its subscriptions.
  bool live() const { return messages_->live(); }
  ScriptServer& scripts() { return scripts_; }

 private:
  SharedConnectionOptions OptionsOfCommands(const Url& url, std::optional<FirstScript> begin,
                                            std::vector<Command> first);
  SubscriberOptions OptionsOfMessages(const Url& url);
  bool TellOther(std::string_view channel, std::optional<std::string_view> message) const {
    return events_.on_other_channel && events_.on_other_channel(channel, message);
  }
  std::unique_ptr<Subscriber> MakeWatch(const Url& url);
  void BeginWatch();
  void Moved(std::string_view address);
  void NoteAnswer(bool is_subscribed, base::Instant asked);
  void Ping();
  void Align();
  std::optional<Target> Where() const;

  const std::string channel_;
  const Events events_;
  const Membership node_;
  base::Atomic<bool> subscribed_{false};  // to its own channel
  base::Atomic<bool> stopped_{false};
  // A connection is new: the next waiter that is queued asks if messages arrive.
  base::Atomic<bool> ask_{true};
  base::Mutex check_mu_;
  SubscriptionCheck check_ ABSL_GUARDED_BY(check_mu_);
  base::Instant pinged_ ABSL_GUARDED_BY(check_mu_);
  const std::unique_ptr<SharedConnection> commands_;
  const std::unique_ptr<AckedConnection> acked_;
  ScriptServer scripts_;
  const ScriptRunner runner_{scripts_};
  // Its thread uses all of this object.
  std::unique_ptr<Subscriber> messages_;
  // Learns from one of the sentinels, whichever answers, that the primary has moved. Its thread
  // uses all of this object, too.
  std::unique_ptr<Subscriber> watch_;
  base::Atomic<bool> watches_{false};
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_
