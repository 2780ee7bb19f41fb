#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/link/sentinel_watch.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Whether messages reach this client. A script that it runs over its command connection tells
// whether the server which runs it has a subscriber of the client's channel. If it has none, though
// the subscription is live, the two connections lead to two servers.
//
//   a waiter asks, and is told                            follows
//   there is a subscriber                                 all is well again
//   none, three times, 50 ms apart                        both connections are made anew
//   none, three times, after each of two such rounds      the client is unsubscribed: waiters poll
//   none, while unsubscribed                              anew, now and then, with back-off
//
// Not thread-safe.
class SubscriptionCheck {
 public:
  enum class Verdict : uint8_t {
    kNothingNew,
    kMakeAnew,         // both connections
    kUnsubscribed,     // from here on
    kSubscribedAgain,  // it was unsubscribed
  };

  // `sent`: when the question was; `live`: since when all subscriptions have been, Infinite() if
  // they are not.
  Verdict Told(bool has_subscriber, base::Instant sent, base::Instant live, base::Instant now);

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

// What a cluster hears of one of its nodes, called as ServerGroup::Events are, and the thread that
// listens to all of them.
struct Membership {
  std::shared_ptr<SubscriberThread> thread;
  // Messages on that channel do not come from there any more, or never did.
  std::function<void(std::string_view channel)> on_silent;
  // It cannot be reached.
  std::function<void()> on_down;
};

// One server that has all keys, wherever the URL leads: with sentinels, to whichever is the
// primary. Connects, and starts its thread, when it is first used: its events need not be ready
// sooner.
//
// In a forked child it is destroyed while threads that are not there any more may have been in the
// midst of it: no member but the connections, which know that, may do anything as it goes.
class SingleServer final : public ServerGroup, private Subscriptions {
 public:
  // `channel`: on which messages come. `first`: see SharedConnectionOptions. `mark`: see
  // AckedConnection.
  // `node`: of one that is a cluster's.
  SingleServer(const Url& url, std::string channel, std::vector<Command> first,
               AckedConnection::Mark mark, Events events, Membership node = {});
  SingleServer(const SingleServer&) = delete;
  SingleServer& operator=(const SingleServer&) = delete;

  std::string server(std::string_view) const override { return commands_->server(); }
  ServerIds ids(std::string_view) override;
  absl::Duration grants_alone_for() const override {
    const absl::Duration lag =
        known() ? commands_->server_info().longest_replica_lag : absl::ZeroDuration();
    return lag + absl::Seconds(1);
  }
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  using ServerGroup::Run;
  void Run(absl::Span<const ScriptCall> calls, base::Instant deadline,
           absl::Span<absl::StatusOr<Reply>> results, StillWanted still_wanted) override {
    if (watch_ != nullptr) watch_->Begin();
    runner_.Run(calls, deadline, results, still_wanted);
  }
  absl::StatusOr<base::Acks> RunAcked(absl::Span<const ScriptCall> calls,
                                      const base::AcksWanted& wanted, absl::Duration patience,
                                      base::Instant deadline,
                                      absl::Span<absl::StatusOr<Reply>> results) override {
    return runner_.RunAcked(calls, wanted, patience, deadline, results);
  }
  absl::Status Send(std::string_view, const Command& command, Done done) override {
    return commands_->Send(command, std::move(done));
  }
  absl::Status Post(const ScriptCall& call, InFlight& in_flight) override {
    return runner_.Post(call, in_flight);
  }
  bool Drain(base::Instant until) override { return commands_->Drain(until); }
  void BeginPoll(std::vector<Transport::Polled>& polled) override {
    polled.push_back(commands_->BeginPoll());
  }
  Subscriptions& subscriptions() override { return *this; }
  Realigned Realign() override;
  Stats stats() const override;
  void Stop() override;

  bool subscribed(std::string_view) const override {
    return subscribed_.load(std::memory_order_acquire);
  }
  bool subscribed_now(std::string_view key) const override { return subscribed(key) && live(); }
  absl::Status Subscribe(std::string_view, base::Instant deadline,
                         const std::stop_token& stop) override {
    return SubscribeTo(channel_, deadline, stop);
  }
  void Attend(std::string_view, bool begins) override { messages_->Attend(begins); }
  void Look(std::string_view) override { messages_->Look(); }
  uint32_t Await(std::string_view, base::Parker& parker, base::Instant deadline) override {
    return messages_->Await(parker, deadline);
  }
  bool asks_if_subscribed(std::string_view) const override {
    return ask_.load(std::memory_order_relaxed);
  }
  void NoteSubscribed(std::string_view key, bool is_subscribed, base::Instant asked) override;
  void CheckSubscription(std::string_view key, base::Instant now,
                         std::optional<base::Instant> missed_since) override;

  // To another channel than its own, and not any more.
  absl::Status SubscribeTo(std::string_view channel, base::Instant deadline,
                           const std::stop_token& stop);
  void Forget(std::string_view channel) {
    messages_->Unsubscribe(channel, base::Now()).IgnoreError();
  }
  // There was a connection, so that it is known what server this is.
  bool known() const { return commands_->stats().connects > 0; }
  // There is a connection for commands.
  bool connected() const { return commands_->peer().has_value(); }
  // The connection for messages is there, with all that was subscribed.
  bool live() const { return messages_->live(); }
  ScriptServer& scripts() { return scripts_; }

 private:
  SharedConnectionOptions OptionsOfCommands(const Url& url, std::vector<Command> first);
  SubscriberOptions OptionsOfMessages(const Url& url);
  void Moved(std::string_view address);
  void Align();
  std::optional<Target> Where() const;

  const std::string channel_;
  const Events events_;
  const Membership node_;
  std::atomic<bool> subscribed_{false};
  std::atomic<bool> stopped_{false};
  // Either connection is new: the next who is queued asks whether messages arrive.
  std::atomic<bool> ask_{true};
  std::atomic<int64_t> epoch_due_{0};  // when the server is to be asked, in ns
  base::Mutex check_mu_;
  SubscriptionCheck check_ ABSL_GUARDED_BY(check_mu_);
  base::Instant pinged_ ABSL_GUARDED_BY(check_mu_);
  const std::unique_ptr<SharedConnection> commands_;
  const std::unique_ptr<AckedConnection> acked_;
  ScriptServer scripts_;
  const ScriptRunner runner_{scripts_};
  // Its thread uses all of this object.
  std::unique_ptr<Subscriber> messages_;
  std::unique_ptr<SentinelWatch> watch_;  // so does its
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_
