#include "src/redis/server_group/single_server.h"

#include <utility>

#include "src/redis/transport/tls.h"

namespace redlatch::redis {

SubscriptionCheck::Verdict SubscriptionCheck::Told(bool has_subscriber, base::Instant sent,
                                                   base::Instant live, base::Instant now) {
  if (has_subscriber) {
    times_ = rounds_ = 0;
    backoff_.Reset();
    return std::exchange(unsubscribed_, false) ? Verdict::kSubscribedAgain : Verdict::kNothingNew;
  }
  // Not before the server can know, and not for each of many waiters.
  if (sent < live || (times_ > 0 && sent < counted_ + kApart)) return Verdict::kNothingNew;
  counted_ = sent;
  if (unsubscribed_ && now < next_try_) return Verdict::kNothingNew;
  if (!unsubscribed_ && ++times_ < kTimes) return Verdict::kNothingNew;
  times_ = 0;
  if (unsubscribed_ || ++rounds_ < kRounds) {
    next_try_ = now + backoff_.Next();
    return Verdict::kMakeAnew;
  }
  unsubscribed_ = true;
  backoff_.Reset();
  next_try_ = now + backoff_.Next();
  return Verdict::kUnsubscribed;
}

namespace {

// Sentinels are asked again so often, at least, while there is no primary: it can be used soon
// after.
constexpr absl::Duration kSentinelsLongestBackoff = absl::Milliseconds(400);

constexpr absl::Duration kAMoment = absl::Milliseconds(200);
constexpr absl::Duration kEpochAskedEvery = absl::Seconds(10);

// A client with many waiters has as many heartbeats.
constexpr absl::Duration kPingsApart = absl::Seconds(1);
constexpr std::string_view kTwoServers =
    "messages do not arrive at this address: it leads to several servers, or forbids PUBLISH";

}  // namespace

SingleServer::SingleServer(const Url& url, std::string channel, std::vector<Command> first,
                           AckedConnection::Mark mark, Events events, Membership node)
    : channel_(std::move(channel)),
      events_(std::move(events)),
      node_(std::move(node)),
      commands_(std::make_unique<SharedConnection>(url, OptionsOfCommands(url, std::move(first)))),
      acked_(std::make_unique<AckedConnection>(url, std::move(mark),
                                               [this] { return commands_->peer(); })),
      scripts_({.on_replica =
                    [this] {
                      if (!stopped_) messages_->MakeAnew();
                    },
                .loading_is_replicas = url.sentinels != nullptr,
                .no_replicas_is_replicas = url.sentinels != nullptr ||
                                           (url.kind == Url::Kind::kTcp && !IsAddress(url.host))},
               commands_.get(), acked_.get()) {
  if (url.sentinels != nullptr) {
    watch_ =
        std::make_unique<SentinelWatch>(url, [this](std::string_view address) { Moved(address); });
  }
  messages_ = std::make_unique<Subscriber>(url, OptionsOfMessages(url));
}

SubscriberOptions SingleServer::OptionsOfMessages(const Url& url) {
  SubscriberOptions options{
      .on_message = [this](std::string_view,
                           std::string_view message) { events_.on_message(message); },
      .on_live_again = [this] { events_.on_reconnected(); },
      // The next acquisition subscribes anew, or says why it cannot.
      .on_refused =
          [this](std::string_view channel, const absl::Status&) {
            subscribed_.store(false);
            if (node_.on_silent) node_.on_silent(channel);
          },
      .sharded = url.in_cluster,
      .where = [this] { return Where(); },
      .thread = node_.thread,
  };
  options.on_down = [this](const absl::Status&) {
    if (node_.on_down) node_.on_down();
    if (events_.on_down) events_.on_down();
  };
  if (url.sentinels != nullptr) options.longest_backoff = kSentinelsLongestBackoff;
  return options;
}

SharedConnectionOptions SingleServer::OptionsOfCommands(const Url& url,
                                                        std::vector<Command> first) {
  SharedConnectionOptions options{.on_reconnected = [this] { events_.on_reconnected(); },
                                  .on_unread = events_.on_unread,
                                  .after_error =
                                      [this](std::string_view error, absl::Duration connected_for) {
                                        return scripts_.AfterError(error, connected_for);
                                      },
                                  .fail_fast = url.in_cluster,
                                  .first = std::move(first)};
  if (url.sentinels != nullptr) {
    options.longest_backoff = kSentinelsLongestBackoff;
  }
  return options;
}

// Whoever holds something is to learn whether the new primary has it, and whoever waits is to queue
// there, though neither has anything to say just now.
void SingleServer::Moved(std::string_view address) {
  const std::optional<Peer> commands = commands_->peer();
  if (stopped_ || (commands && commands->target.address.text == address)) return;
  // Before the first connection nothing can have been missed, nor since a moment ago.
  if (address.empty() && !commands && commands_->stats().connects == 0) return;
  if (address.empty() && commands && base::Now() - commands->since < kAMoment) return;
  // Also one that is just being made: it may lead to where the primary was.
  if (commands || !address.empty()) {
    commands_->MakeAnew("the sentinels say that the primary has moved");
  }
  messages_->MakeAnew();
  events_.on_reconnected();
}

ServerIds SingleServer::ids(std::string_view) {
  const base::Instant now = base::Now();
  if (epoch_due_.load(std::memory_order_relaxed) <= now.nanos()) {
    epoch_due_.store((now + kEpochAskedEvery).nanos(), std::memory_order_relaxed);
    return {.run_id = commands_->server_info().run_id};
  }
  ServerInfo info = commands_->server_info();
  return {.primary_epoch = std::move(info.replication_id), .run_id = std::move(info.run_id)};
}

std::optional<Target> SingleServer::Where() const {
  std::optional<Peer> peer = commands_->peer();
  if (!peer) return std::nullopt;
  return std::move(peer->target);
}

void SingleServer::Stop() {
  stopped_ = true;
  if (watch_ != nullptr) watch_->Stop();
  messages_->Stop();
}

absl::Status SingleServer::Connect(base::Instant deadline, std::vector<std::string>& warnings) {
  if (watch_ != nullptr) watch_->Begin();
  absl::Status connected = commands_->Connect(deadline);
  if (!connected.ok()) return connected;
  const ServerInfo info = commands_->server_info();
  warnings.insert(warnings.end(), info.warnings.begin(), info.warnings.end());
  return connected;
}

absl::Status SingleServer::SubscribeTo(std::string_view channel, base::Instant deadline,
                                       const std::stop_token& stop) {
  absl::Status subscribed = messages_->Subscribe(channel, deadline, stop);
  if (subscribed.ok()) {
    subscribed_.store(true, std::memory_order_release);
    Align();
  }
  return subscribed;
}

void SingleServer::CheckSubscription(std::string_view, base::Instant now,
                                     std::optional<base::Instant> missed_since) {
  // A message that was missed while there was no subscription says nothing of the present one.
  const std::optional<Peer> peer = missed_since ? messages_->peer() : std::nullopt;
  const bool anew = peer && peer->since <= *missed_since;
  {
    const base::MutexLock lock(check_mu_);
    if (!anew || check_.unsubscribed()) {
      if (now < pinged_ + kPingsApart) return;
      pinged_ = now;
      return messages_->Ping();
    }
  }
  messages_->MakeAnew();
}

void SingleServer::NoteSubscribed(std::string_view, bool is_subscribed, base::Instant asked) {
  const std::optional<Peer> peer = messages_->peer();
  const base::Instant live = peer ? peer->since : base::Instant::Infinite();
  SubscriptionCheck::Verdict verdict;
  {
    const base::MutexLock lock(check_mu_);
    verdict = check_.Told(is_subscribed, asked, live, base::Now());
  }
  if (is_subscribed) ask_.store(false, std::memory_order_relaxed);
  switch (verdict) {
    case SubscriptionCheck::Verdict::kNothingNew:
      return;
    case SubscriptionCheck::Verdict::kMakeAnew:
      commands_->MakeAnew(kTwoServers);
      return messages_->MakeAnew();
    case SubscriptionCheck::Verdict::kUnsubscribed:
      return events_.on_subscribed(false, kTwoServers);
    case SubscriptionCheck::Verdict::kSubscribedAgain:
      return events_.on_subscribed(true, {});
  }
}

ServerGroup::Realigned SingleServer::Realign() {
  ask_.store(true, std::memory_order_relaxed);
  Align();
  return {};
}

// Newest wins: whichever was made anew has found out where the server is now.
void SingleServer::Align() {
  const std::optional<Peer> commands = commands_->peer();
  const std::optional<Peer> messages = messages_->peer();
  if (!commands || !messages || commands->target.address == messages->target.address) return;
  if (commands->since < messages->since) {
    commands_->MakeAnew("its messages come from another address by now");
  } else {
    messages_->MakeAnew();
  }
}

ServerGroup::Stats SingleServer::stats() const {
  const SharedConnection::Stats stats = commands_->stats();
  return {.connects = stats.connects, .breaks = stats.breaks, .late = stats.late};
}

}  // namespace redlatch::redis
