#include "src/redis/server_group/single_server.h"

#include <utility>

#include "absl/strings/str_split.h"
#include "src/redis/connect/sentinel.h"
#include "src/redis/transport/tls.h"

namespace redlatch::redis {

SubscriptionCheck::Verdict SubscriptionCheck::Note(bool has_subscriber, base::Instant sent,
                                                   base::Instant live, base::Instant now) {
  if (has_subscriber) {
    times_ = rounds_ = 0;
    backoff_.Reset();
    return std::exchange(unsubscribed_, false) ? Verdict::kSubscribedAgain : Verdict::kNothingNew;
  }
  // Ignores questions from before the server could know, and counts many waiters' questions once.
  if (sent < live || (times_ > 0 && sent < counted_ + kApart)) return Verdict::kNothingNew;
  counted_ = sent;
  if (unsubscribed_ && now < next_try_) return Verdict::kNothingNew;
  if (!unsubscribed_ && ++times_ < kTimes) return Verdict::kNothingNew;
  times_ = 0;
  if (unsubscribed_ || ++rounds_ < kRounds) {
    next_try_ = now + backoff_.Next();
    return Verdict::kReplaceConnections;
  }
  unsubscribed_ = true;
  backoff_.Reset();
  next_try_ = now + backoff_.Next();
  return Verdict::kUnsubscribed;
}

namespace {

// While there is no primary, sentinels are asked at least this often, so that a new one is used
// soon.
constexpr absl::Duration kSentinelsLongestBackoff = absl::Milliseconds(400);

// Sooner than for a server, since nothing else would notice a sentinel that hangs.
constexpr absl::Duration kSentinelsPingInterval = absl::Seconds(5);

constexpr absl::Duration kAMoment = absl::Milliseconds(200);

// A client with many waiters has many heartbeats, each of which may ping.
constexpr absl::Duration kPingsApart = absl::Seconds(1);
constexpr std::string_view kTwoServers =
    "messages do not arrive at this address: it leads to several servers, or forbids PUBLISH";

}  // namespace

SingleServer::SingleServer(const Url& url, std::string channel, std::optional<FirstScript> begin,
                           std::vector<Command> first, AckedConnection::Mark mark, Events events,
                           Membership node)
    : ServerGroup(&runner_),
      channel_(std::move(channel)),
      events_(std::move(events)),
      node_(std::move(node)),
      commands_(
          std::make_unique<SharedConnection>(url, OptionsOfCommands(url, begin, std::move(first)))),
      acked_(std::make_unique<AckedConnection>(url, std::move(mark), std::move(begin),
                                               [this] { return commands_->peer(); })),
      scripts_({.on_replica =
                    [this] {
                      if (!stopped_) messages_->ReplaceConnection();
                    },
                .loading_is_replicas = url.sentinels != nullptr,
                .no_replicas_is_replicas = url.sentinels != nullptr ||
                                           (url.kind == Url::Kind::kTcp && !IsAddress(url.host))},
               commands_.get(), acked_.get()) {
  if (url.sentinels != nullptr) watch_ = MakeWatch(url);
  messages_ = std::make_unique<Subscriber>(url, OptionsOfMessages(url));
}

SubscriberOptions SingleServer::OptionsOfMessages(const Url& url) {
  SubscriberOptions options{
      .on_message =
          [this](std::string_view channel, std::string_view message) {
            if (!TellOther(channel, message)) events_.on_message(message);
          },
      .on_live_again = [this] { events_.on_reconnected(); },
      // The next acquisition subscribes again, or says why it cannot.
      .on_refused =
          [this](std::string_view channel, const absl::Status&) {
            if (TellOther(channel, std::nullopt)) return;
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
                                                        std::optional<FirstScript> begin,
                                                        std::vector<Command> first) {
  SharedConnectionOptions options{.on_reconnected = [this] { events_.on_reconnected(); },
                                  .on_unread = events_.on_unread,
                                  .after_error =
                                      [this](std::string_view error, absl::Duration connected_for) {
                                        return scripts_.AfterError(error, connected_for);
                                      },
                                  .fail_fast = url.in_cluster,
                                  .begin = std::move(begin),
                                  .first = std::move(first)};
  if (url.sentinels != nullptr) {
    options.longest_backoff = kSentinelsLongestBackoff;
  }
  return options;
}

std::unique_ptr<Subscriber> SingleServer::MakeWatch(const Url& url) {
  const auto on_message = [this, primary = url.sentinels->options().primary](
                              std::string_view, std::string_view message) {
    // name, old host, old port, new host, new port
    const std::vector<std::string> words =
        absl::StrSplit(absl::string_view(message.data(), message.size()), ' ');
    if (words.size() < 5 || words[0] != primary) return;
    const std::optional<HostAndPort> now_at = MakeHostAndPort(words[3], words[4]);
    Moved(now_at ? now_at->text() : "");
  };
  return std::make_unique<Subscriber>(AsToSentinels(url),
                                      SubscriberOptions{.on_message = on_message,
                                                        .on_live_again = [this] { Moved({}); },
                                                        .first_is_again = true,
                                                        .ping_interval = kSentinelsPingInterval},
                                      MakeEndpointOfSentinels(url));
}

void SingleServer::BeginWatch() {
  if (watches_.load(std::memory_order_relaxed) || watches_.exchange(true)) return;
  // The subscriber keeps trying.
  watch_->Subscribe("+switch-master", base::Now()).IgnoreError();
}

// `address`: the primary's new one, such as "127.0.0.1:6379"; empty if it may have moved unnoticed.
// Owners must learn if the new primary has their grants, and waiters must queue there, though none
// has a request to send just now.
void SingleServer::Moved(std::string_view address) {
  const std::optional<Peer> commands = commands_->peer();
  if (stopped_ || (commands && commands->target.address.text == address)) return;
  // Nothing can have been missed before the first connection, or since one that is only moments
  // old.
  if (address.empty() && !commands && commands_->stats().connects == 0) return;
  if (address.empty() && commands && base::Now() - commands->since < kAMoment) return;
  // This includes a connection that is being made: it may lead to the former primary.
  if (commands || !address.empty()) {
    commands_->ReplaceConnection("the sentinels say that the primary has moved");
  }
  messages_->ReplaceConnection();
  events_.on_reconnected();
}

ServerFacts SingleServer::facts(std::string_view) const {
  // In this order: once there has been a connection, its server's info is known.
  const SharedConnection::Stats connections = commands_->stats();
  ServerInfo info = commands_->server_info();
  const absl::Duration lag =
      connections.connects > 0 ? info.longest_replica_lag : absl::ZeroDuration();
  return {.name = commands_->server(),
          .primary_epoch = std::move(info.replication_id),
          .run_id = std::move(info.run_id),
          .grants_alone_for = lag + absl::Seconds(1),
          .connections = connections};
}

Subscription SingleServer::subscription(std::string_view) const {
  const bool acknowledged = subscribed_.load(std::memory_order_acquire);
  return {.acknowledged = acknowledged,
          .live = acknowledged && live(),
          .unchecked = ask_.load(std::memory_order_relaxed)};
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
  if (watch_ != nullptr) BeginWatch();
  absl::Status connected = commands_->Connect(deadline);
  if (!connected.ok()) return connected;
  const ServerInfo info = commands_->server_info();
  warnings.insert(warnings.end(), info.warnings.begin(), info.warnings.end());
  return connected;
}

absl::Status SingleServer::SubscribeTo(std::string_view, const std::string& channel,
                                       base::Instant deadline, const std::stop_token& stop) {
  absl::Status subscribed = messages_->Subscribe(channel, deadline, stop);
  if (subscribed.ok()) {
    if (channel == channel_) subscribed_.store(true, std::memory_order_release);
    Align();
  }
  return subscribed;
}

void SingleServer::NoteSign(std::string_view, SubscriptionSign sign, base::Instant since) {
  const bool subscribed = sign == SubscriptionSign::kSubscribed;
  if (subscribed || sign == SubscriptionSign::kUnsubscribed) return NoteAnswer(subscribed, since);
  if (sign == SubscriptionSign::kMissedMessage) {
    // A message that was missed before the present subscription says nothing about it.
    const std::optional<Peer> peer = messages_->peer();
    const base::MutexLock lock(check_mu_);
    if (peer && peer->since <= since && !check_.unsubscribed()) {
      return messages_->ReplaceConnection();
    }
  }
  Ping();
}

void SingleServer::Ping() {
  const base::Instant now = base::Now();
  {
    const base::MutexLock lock(check_mu_);
    if (now < pinged_ + kPingsApart) return;
    pinged_ = now;
  }
  messages_->Ping();
}

void SingleServer::NoteAnswer(bool is_subscribed, base::Instant asked) {
  const std::optional<Peer> peer = messages_->peer();
  const base::Instant live = peer ? peer->since : base::Instant::Infinite();
  SubscriptionCheck::Verdict verdict;
  {
    const base::MutexLock lock(check_mu_);
    verdict = check_.Note(is_subscribed, asked, live, base::Now());
  }
  if (is_subscribed) ask_.store(false, std::memory_order_relaxed);
  switch (verdict) {
    case SubscriptionCheck::Verdict::kNothingNew:
      return;
    case SubscriptionCheck::Verdict::kReplaceConnections:
      commands_->ReplaceConnection(kTwoServers);
      return messages_->ReplaceConnection();
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

// The newer connection wins: it was made to the server's present address.
void SingleServer::Align() {
  const std::optional<Peer> commands = commands_->peer();
  const std::optional<Peer> messages = messages_->peer();
  if (!commands || !messages || commands->target.address == messages->target.address) return;
  if (commands->since < messages->since) {
    commands_->ReplaceConnection("its messages come from another address by now");
  } else {
    messages_->ReplaceConnection();
  }
}

}  // namespace redlatch::redis
