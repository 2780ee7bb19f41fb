#include "src/redis/server_group/single_server.h"

#include <utility>

#include "absl/strings/str_split.h"
#include "src/redis/connect/sentinel.h"
#include "src/redis/transport/tls.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

namespace {

// While there is no primary, sentinels are asked at least this often, so that a new one is used
// soon.
constexpr absl::Duration kSentinelsLongestBackoff = absl::Milliseconds(400);

// Sooner than for a server, since nothing else would notice a sentinel that hangs.
constexpr absl::Duration kSentinelsPingInterval = absl::Seconds(5);

constexpr absl::Duration kAMoment = absl::Milliseconds(200);

}  // namespace

SingleServer::SingleServer(const Url& url, std::string channel, std::optional<FirstScript> begin,
                           std::vector<Command> first, AckedConnection::Mark mark, Events events,
                           std::shared_ptr<Listener> listener)
    : ServerGroup(&runner_),
      channel_(std::move(channel)),
      events_(std::move(events)),
      may_move_(url.sentinels != nullptr || (url.kind == Url::Kind::kTcp && !IsAddress(url.host))),
      connection_(std::make_unique<Connection>(
          url, Options(url, begin, std::move(first), std::move(listener)))),
      acked_(std::make_unique<AckedConnection>(url, std::move(mark), std::move(begin),
                                               [this] { return connection_->peer(); })),
      scripts_(connection_.get(), acked_.get()) {
  if (url.sentinels != nullptr) watch_ = MakeWatch(url);
}

ConnectionOptions SingleServer::Options(const Url& url, std::optional<FirstScript> begin,
                                        std::vector<Command> first,
                                        std::shared_ptr<Listener> listener) {
  ConnectionOptions options{
      .on_message =
          [this](std::string_view channel, std::string_view message) {
            if (!TellOther(channel, message)) events_.on_message(message);
          },
      .on_refused = [this](std::string_view channel,
                           const absl::Status& why) { OnRefused(channel, why); },
      .on_reconnected = events_.on_reconnected,
      .on_down = events_.on_down,
      .sharded = url.in_cluster,
      .listener = std::move(listener),
      .after_error = [this](
                         std::string_view error,
                         absl::Duration connected_for) { return WhyLeave(error, connected_for); },
      .fail_fast = url.in_cluster,
      .begin = std::move(begin),
      .first = std::move(first)};
  if (url.sentinels != nullptr) options.longest_backoff = kSentinelsLongestBackoff;
  return options;
}

std::string SingleServer::WhyLeave(std::string_view error, absl::Duration connected_for) {
  const ErrorCode code = ClassifyError(error);
  if (code == ErrorCode::kNoScript) scripts_.ForgetKnown();
  const bool cut_off =
      may_move_ && code == ErrorCode::kNoReplicas && connected_for >= absl::Seconds(1);
  // A replica that replaces its data.
  const bool loads = watch_ != nullptr && code == ErrorCode::kLoading;
  if (!cut_off && !loads && !IsReplicas(code)) return {};
  return cut_off ? "it has lost its replicas" : "it is a replica now";
}

// The next acquisition subscribes again, or says why it cannot.
void SingleServer::OnRefused(std::string_view channel, const absl::Status& why) {
  if (TellOther(channel, std::nullopt)) return;
  ++refusals_;
  if (!refused_.exchange(true) && events_.on_subscribed) {
    events_.on_subscribed(false, {why.message().data(), why.message().size()});
  }
}

std::unique_ptr<Connection> SingleServer::MakeWatch(const Url& url) {
  const auto on_message = [this, primary = url.sentinels->options().primary](
                              std::string_view, std::string_view message) {
    // name, old host, old port, new host, new port
    const std::vector<std::string> words =
        absl::StrSplit(absl::string_view(message.data(), message.size()), ' ');
    if (words.size() < 5 || words[0] != primary) return;
    const std::optional<HostAndPort> now_at = MakeHostAndPort(words[3], words[4]);
    Moved(now_at ? now_at->text() : "");
  };
  return std::make_unique<Connection>(
      AsToSentinels(url), ConnectionOptions{.on_message = on_message,
                                            .on_reconnected = [this] { Moved({}); },
                                            .first_is_again = true,
                                            .ping_interval = kSentinelsPingInterval,
                                            .purpose = Handshake::Purpose::kSubscriptions,
                                            .endpoint = MakeEndpointOfSentinels(url)});
}

void SingleServer::BeginWatch() {
  if (watches_.load(std::memory_order_relaxed) || watches_.exchange(true)) return;
  // The connection keeps trying.
  watch_->Subscribe("+switch-master", base::Now()).IgnoreError();
}

// `address`: the primary's new one, such as "127.0.0.1:6379"; empty if it may have moved unnoticed.
// Owners must learn if the new primary has their grants, and waiters must queue there, though none
// has a request to send just now.
void SingleServer::Moved(std::string_view address) {
  const std::optional<Peer> commands = connection_->peer();
  if (stopped_ || (commands && commands->target.address.text == address)) return;
  // Nothing can have been missed before the first connection, or since one that is only moments
  // old.
  if (address.empty() && !commands && connection_->stats().connects == 0) return;
  if (address.empty() && commands && base::Now() - commands->since < kAMoment) return;
  // This includes a connection that is being made: it may lead to the former primary.
  if (commands || !address.empty()) {
    connection_->Replace("the sentinels say that the primary has moved");
  }
  events_.on_reconnected();
}

ServerFacts SingleServer::facts(std::string_view) const {
  // In this order: once there has been a connection, its server's info is known.
  const Connection::Stats connections = connection_->stats();
  ServerInfo info = connection_->server_info();
  const absl::Duration lag =
      connections.connects > 0 ? info.longest_replica_lag : absl::ZeroDuration();
  return {.name = connection_->server(),
          .primary_epoch = std::move(info.replication_id),
          .run_id = std::move(info.run_id),
          .grants_alone_for = lag + absl::Seconds(1),
          .connections = connections};
}

Subscription SingleServer::subscription(std::string_view) const {
  const bool acknowledged = subscribed_after_.load(std::memory_order_acquire) == refusals_;
  return {.acknowledged = acknowledged, .live = acknowledged && connected()};
}

void SingleServer::Stop() {
  stopped_ = true;
  if (watch_ != nullptr) watch_->Stop();
  connection_->Stop();
}

absl::Status SingleServer::Connect(base::Instant deadline, std::vector<std::string>& warnings) {
  if (watch_ != nullptr) BeginWatch();
  absl::Status connected = connection_->Connect(deadline);
  if (!connected.ok()) return connected;
  const ServerInfo info = connection_->server_info();
  warnings.insert(warnings.end(), info.warnings.begin(), info.warnings.end());
  return connected;
}

absl::Status SingleServer::Subscribe(std::string_view, base::Instant deadline) {
  if (watch_ != nullptr) BeginWatch();
  // The server's refusal may come before this call returns.
  const uint64_t refusals = refusals_;
  absl::Status subscribed = connection_->SubscribeAhead(channel_, deadline);
  if (!subscribed.ok()) return subscribed;
  subscribed_after_.store(refusals, std::memory_order_release);
  if (refused_.exchange(false) && events_.on_subscribed) events_.on_subscribed(true, {});
  return subscribed;
}

}  // namespace redlatch::redis
