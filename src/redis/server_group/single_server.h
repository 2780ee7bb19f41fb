#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/redis/link/acked_connection.h"
#include "src/redis/link/scripts.h"
#include "src/redis/link/sentinel_watch.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/server_group/subscription_check.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

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
class SingleServer final : public ServerGroup {
 public:
  // `channel`: on which messages come. `first`: see SharedConnectionOptions. `mark`: see
  // AckedConnection.
  // `node`: of one that is a cluster's.
  SingleServer(const Url& url, std::string channel, std::vector<Command> first,
               AckedConnection::Mark mark, Events events, Membership node = {});
  SingleServer(const SingleServer&) = delete;
  SingleServer& operator=(const SingleServer&) = delete;

  std::string server(std::string_view) const override { return commands_->server(); }
  std::string primary_epoch(std::string_view) override;
  std::string run_id(std::string_view) override { return commands_->server_info().run_id; }
  absl::Duration grants_alone_for() const override {
    const absl::Duration lag =
        known() ? commands_->server_info().longest_replica_lag : absl::ZeroDuration();
    return lag + absl::Seconds(1);
  }
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  absl::StatusOr<Reply> Call(std::string_view, const Command& command,
                             base::Instant deadline) override {
    Watch();
    return commands_->Call(command, deadline);
  }
  std::vector<std::string> Get(absl::Span<const std::string> keys, base::Instant deadline) override;
  absl::StatusOr<Reply> Run(const ScriptCall& call, base::Instant deadline,
                            StillWanted still_wanted) override {
    Watch();
    return scripts_.Run(call, deadline, still_wanted);
  }
  void RunBatch(absl::Span<const ScriptCall> calls, base::Instant deadline,
                absl::Span<absl::StatusOr<Reply>> results) override {
    scripts_.RunBatch(calls, deadline, results);
  }
  // The same, but that nothing is sent a second time, for whatever reason it was refused.
  void RunBatchOnce(absl::Span<const ScriptCall> calls, base::Instant deadline,
                    absl::Span<absl::StatusOr<Reply>> results) {
    scripts_.RunBatch(calls, deadline, results, [] { return false; });
  }
  absl::StatusOr<base::Acks> RunAcked(absl::Span<const ScriptCall> calls,
                                      const base::AcksWanted& wanted, absl::Duration patience,
                                      base::Instant deadline,
                                      absl::Span<absl::StatusOr<Reply>> results) override {
    return acked_->Run(calls, wanted, patience, deadline, results);
  }
  absl::Status Send(std::string_view, const Command& command, Done done) override {
    return commands_->Send(command, std::move(done));
  }
  bool Drain(std::string_view, base::Instant until) override { return commands_->Drain(until); }
  bool MayPost(std::string_view key, const LuaScript& script) override;
  absl::Status Post(const ScriptCall& call, InFlight& in_flight) override;
  bool BeginRun(const ScriptCall& call, InFlight& in_flight) override;
  bool DrainAll(base::Instant until) override { return commands_->Drain(until); }
  Transport::Polled BeginPoll(std::string_view) override { return commands_->BeginPoll(); }
  void BeginPollAll(std::vector<Transport::Polled>& polled) override {
    polled.push_back(commands_->BeginPoll());
  }
  bool subscribed(std::string_view) const override {
    return subscribed_.load(std::memory_order_acquire);
  }
  absl::Status Subscribe(std::string_view, base::Instant deadline,
                         const std::stop_token& stop) override {
    return SubscribeTo(channel_, deadline, stop);
  }
  // To another channel than its own.
  absl::Status SubscribeTo(std::string_view channel, base::Instant deadline,
                           const std::stop_token& stop);
  std::string slot_tag(std::string_view) const override { return {}; }
  // Not any more.
  void Forget(std::string_view channel) {
    messages_->Unsubscribe(channel, base::Now()).IgnoreError();
  }
  // There was a connection, so that it is known what server this is.
  bool known() const { return commands_->stats().connects > 0; }
  // There is a connection for commands.
  bool connected() const { return commands_->peer().has_value(); }
  // For what goes over it in a way of the cluster's own.
  SharedConnection& commands() { return *commands_; }
  bool subscribed_now(std::string_view key) const override { return subscribed(key) && live(); }
  // The connection for messages is there, with all that was subscribed.
  bool live() const { return messages_->live(); }
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
  Realigned Realign() override;
  Stats stats() const override;
  void Stop() override;

 private:
  void Watch() {
    if (watch_ != nullptr) watch_->Begin();
  }
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
  // What MayPost() was asked about over the connection of that number, by the SHA-1s' addresses.
  std::array<std::atomic<const char*>, 8> ran_{};
  std::atomic<uint64_t> ran_over_{0};
  std::atomic<int64_t> epoch_due_{0};  // when the server is to be asked, in ns
  base::Mutex check_mu_;
  SubscriptionCheck check_ ABSL_GUARDED_BY(check_mu_);
  base::Instant pinged_ ABSL_GUARDED_BY(check_mu_);
  const std::unique_ptr<SharedConnection> commands_;
  Scripts scripts_;
  const std::unique_ptr<AckedConnection> acked_;
  // Its thread uses all of this object.
  std::unique_ptr<Subscriber> messages_;
  std::unique_ptr<SentinelWatch> watch_;  // so does its
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_
