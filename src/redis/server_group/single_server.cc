#include "src/redis/server_group/single_server.h"

#include <utility>

#include "src/redis/transport/tls.h"

namespace redlatch::redis {
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
      scripts_(*commands_),
      acked_(std::make_unique<AckedConnection>(url, std::move(mark),
                                               [this] { return commands_->peer(); })) {
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
  SharedConnectionOptions options{
      .on_reconnected = [this] { events_.on_reconnected(); },
      .on_unread = events_.on_unread,
      .on_replica =
          [this] {
            if (!stopped_) messages_->MakeAnew();
          },
      .no_replicas_is_replicas =
          url.sentinels != nullptr || (url.kind == Url::Kind::kTcp && !IsAddress(url.host)),
      .fail_fast = url.in_cluster,
      .first = std::move(first)};
  if (url.sentinels != nullptr) {
    options.longest_backoff = kSentinelsLongestBackoff;
    options.loading_is_replicas = true;
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

std::string SingleServer::primary_epoch(std::string_view) {
  const base::Instant now = base::Now();
  if (epoch_due_.load(std::memory_order_relaxed) <= now.nanos()) {
    epoch_due_.store((now + kEpochAskedEvery).nanos(), std::memory_order_relaxed);
    return {};
  }
  return commands_->server_info().replication_id;
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
  Watch();
  absl::Status connected = commands_->Connect(deadline);
  if (!connected.ok()) return connected;
  const ServerInfo info = commands_->server_info();
  warnings.insert(warnings.end(), info.warnings.begin(), info.warnings.end());
  return connected;
}

std::vector<std::string> SingleServer::Get(absl::Span<const std::string> keys,
                                           base::Instant deadline) {
  std::vector<std::string> texts(keys.size());
  std::vector<std::string_view> words = {"MGET"};
  words.insert(words.end(), keys.begin(), keys.end());
  absl::StatusOr<Reply> reply = Call({}, Command(words), deadline);
  for (size_t i = 0; reply.ok() && i < reply->elements.size() && i < texts.size(); ++i) {
    texts[i] = std::move(reply->elements[i].text);
  }
  return texts;
}

bool SingleServer::MayPost(std::string_view, const LuaScript& script) {
  const uint64_t made = commands_->made();
  if (ran_over_.exchange(made) != made) {
    for (auto& each : ran_) each.store(nullptr);
  }
  for (auto& each : ran_) {
    const char* known = nullptr;
    if (each.compare_exchange_strong(known, script.sha1.data())) return false;
    if (known == script.sha1.data()) return true;
  }
  return true;
}

absl::Status SingleServer::Post(const ScriptCall& call, InFlight& in_flight) {
  const Command commands[] = {Command{"PING"}, EncodeCall(call, call.by_text)};
  return commands_->Post(absl::MakeConstSpan(commands).last(in_flight.results.size()), in_flight);
}

bool SingleServer::BeginRun(const ScriptCall& call, InFlight& in_flight) {
  const Command command = EncodeCall(call, call.by_text);
  return commands_->Begin(absl::MakeConstSpan(&command, 1), in_flight).ok();
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
