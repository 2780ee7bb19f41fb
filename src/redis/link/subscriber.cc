#include "src/redis/link/subscriber.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/redis/link/subscriber_impl.h"

namespace redlatch::redis {

Subscriber::Subscriber(const Url& url, SubscriberOptions options)
    : server_(url.DebugString()), impl_(std::make_unique<Impl>(url, std::move(options))) {}

Subscriber::~Subscriber() {
  if (!fork_guard_.InForkedChild()) return;
  impl_->Abandon();
  (void)impl_.release();
}

absl::Status Subscriber::Refusal() const {
  if (!fork_guard_.InForkedChild()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the subscriptions at ", server_,
                   " belong to the process that forked this one; connect again after fork()"));
}

absl::Status Subscriber::Subscribe(std::string_view channel, base::Instant deadline,
                                   const std::stop_token& stop) {
  absl::Status refused = Refusal();
  return refused.ok() ? impl_->Subscribe(channel, deadline, stop) : refused;
}

absl::Status Subscriber::Unsubscribe(std::string_view channel, base::Instant deadline) {
  absl::Status refused = Refusal();
  return refused.ok() ? impl_->Unsubscribe(channel, deadline) : refused;
}

void Subscriber::MakeAnew() {
  if (!fork_guard_.InForkedChild()) impl_->MakeAnew();
}

void Subscriber::Ping() {
  if (!fork_guard_.InForkedChild()) impl_->Ping();
}

uint32_t Subscriber::Await(base::Parker& parker, base::Instant deadline) {
  return fork_guard_.InForkedChild() ? parker.ParkUntil(deadline) : impl_->Await(parker, deadline);
}

void Subscriber::Stop() {
  if (!fork_guard_.InForkedChild()) impl_->Stop();
}

bool Subscriber::live() const { return !fork_guard_.InForkedChild() && impl_->live(); }

std::optional<Peer> Subscriber::peer() const {
  return fork_guard_.InForkedChild() ? std::nullopt : impl_->peer();
}

Subscriber::Stats Subscriber::stats() const {
  return fork_guard_.InForkedChild() ? Stats() : impl_->stats();
}

Subscriber::Impl::Impl(const Url& url, SubscriberOptions options)
    : options_(std::move(options)),
      server_(url.DebugString()),
      connector_(url, Handshake::Purpose::kSubscriptions, options_.open, nullptr, options_.where),
      comeback_(options_.first_backoff, options_.longest_backoff),
      buffer_(std::make_unique<char[]>(kReadSize)) {}

Subscriber::Impl::~Impl() { Stop(); }

void Subscriber::Impl::Stop() {
  if (!thread_.joinable()) return;
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    WakeReader();
  }
  thread_.join();
}

void Subscriber::Impl::Abandon() {
  transport_.reset();
  connector_.CloseInForkedChild();
  wake_.Close();
}

absl::Status Subscriber::Impl::StartThread() {
  if (thread_.joinable()) return absl::OkStatus();
  if (!wake_.Open()) {
    return absl::UnavailableError(absl::StrCat(
        "no file descriptor is left for the subscriptions at ", server_, " (raise ulimit -n)"));
  }
  try {
    thread_ = base::StartThread("redlatch-listen", [this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::UnavailableError(absl::StrCat("cannot start a thread for the subscriptions at ",
                                               server_, ": ", error.what()));
  }
  return absl::OkStatus();
}

Subscriber::Impl::SubscriptionPtr Subscriber::Impl::Find(std::string_view channel) const {
  const auto known = subscriptions_.find(channel);
  return known == subscriptions_.end() ? nullptr : known->second;
}

void Subscriber::Impl::End(Subscription& subscription, absl::Status why) {
  subscription.state = State::kEnded;
  subscription.end = std::move(why);
  changed_.SignalAll();
  // While it was left, another may have taken its name.
  const auto known = subscriptions_.find(subscription.channel);
  if (known != subscriptions_.end() && known->second.get() == &subscription) {
    subscriptions_.erase(known);
  }
}

absl::Status Subscriber::Impl::Subscribe(std::string_view channel, base::Instant deadline,
                                         const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] {
    const base::MutexLock lock(mu_);
    changed_.SignalAll();
  });
  const base::MutexLock lock(mu_);
  SubscriptionPtr subscription = Find(channel);
  if (subscription == nullptr || subscription->state == State::kLeaving) {
    if (absl::Status started = StartThread(); !started.ok()) return started;
    subscription = std::make_shared<Subscription>(channel);
    subscriptions_[subscription->channel] = subscription;
    if (connected_) requests_.push_back({Verb::kSubscribe, subscription});
    WakeReader();
  }
  const uint64_t refusals = refusals_;
  while (subscription->state == State::kAsked && refusals_ == refusals && base::Now() < deadline &&
         !stop.stop_requested()) {
    changed_.WaitUntil(mu_, deadline);
  }
  if (subscription->state == State::kLive) return absl::OkStatus();
  if (subscription->state != State::kAsked) return base::Unshared(subscription->end);
  if (refusals_ != refusals) return base::Unshared(last_failure_);
  subscription->promised = true;
  std::string why = connected_ ? server_ + " has not acknowledged the subscription"
                               : "not yet connected to " + server_;
  if (!connected_ && !last_failure_.ok()) why = std::string(last_failure_.message());
  return absl::UnavailableError(why + " (still trying in the background)");
}

absl::Status Subscriber::Impl::Unsubscribe(std::string_view channel, base::Instant deadline) {
  const base::MutexLock lock(mu_);
  const SubscriptionPtr subscription = Find(channel);
  if (subscription == nullptr) return absl::OkStatus();
  if (subscription->state != State::kLeaving) {
    subscription->end = absl::CancelledError("the channel was unsubscribed in the meantime");
    if (!connected_) {
      End(*subscription, subscription->end);
      WakeReader();  // from connecting for nobody
      return absl::OkStatus();
    }
    subscription->state = State::kLeaving;
    changed_.SignalAll();  // to a Subscribe() that waits
    requests_.push_back({Verb::kUnsubscribe, subscription});
    WakeReader();
  }
  while (subscription->state == State::kLeaving && base::Now() < deadline) {
    changed_.WaitUntil(mu_, deadline);
  }
  if (subscription->state != State::kLeaving) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(server_, " has not acknowledged the end of a subscription"));
}

void Subscriber::Impl::MakeAnew() {
  const base::MutexLock lock(mu_);
  if (make_anew_ || subscriptions_.empty() || !AllLive()) return;
  make_anew_ = true;
  WakeReader();
}

void Subscriber::Impl::Ping() {
  const base::MutexLock lock(mu_);
  if (!connected_ || ping_) return;
  ping_ = true;
  WakeReader();
}

bool Subscriber::Impl::AllLive() const {
  return connected_ && std::none_of(subscriptions_.begin(), subscriptions_.end(),
                                    [](const auto& s) { return s.second->state == State::kAsked; });
}

bool Subscriber::Impl::live() const {
  const base::MutexLock lock(mu_);
  return AllLive();
}

std::optional<Peer> Subscriber::Impl::peer() const {
  const base::MutexLock lock(mu_);
  return AllLive() ? peer_ : std::nullopt;
}

Subscriber::Stats Subscriber::Impl::stats() const {
  const base::MutexLock lock(mu_);
  return stats_;
}

}  // namespace redlatch::redis
