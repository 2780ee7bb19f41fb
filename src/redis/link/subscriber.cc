#include "src/redis/link/subscriber.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace redlatch::redis {

Subscriber::Subscriber(const Url& url, SubscriberOptions options,
                       std::unique_ptr<Endpoint> endpoint)
    : options_(std::move(options)),
      server_(url.DebugString()),
      thread_(options_.thread != nullptr ? options_.thread : std::make_shared<ListeningThread>()),
      connector_(url, Handshake::Purpose::kSubscriptions, options_.open, std::move(endpoint),
                 options_.where),
      comeback_(options_.first_backoff, options_.longest_backoff),
      lost_(options_.first_is_again) {}

Subscriber::~Subscriber() { Stop(); }

void Subscriber::operator delete(Subscriber* subscriber, std::destroying_delete_t) {
  if (subscriber->fork_guard_.InForkedChild()) {
    subscriber->dialogue_.transport.reset();
    subscriber->connector_.CloseInForkedChild();
    subscriber->thread_->CloseInForkedChild();
    subscriber->LeaveGateInForkedChild();
    return subscriber->wake_.Close();
  }
  subscriber->~Subscriber();
  ::operator delete(subscriber);
}

absl::Status Subscriber::Refusal() const {
  if (!fork_guard_.InForkedChild()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the subscriptions at ", server_,
                   " belong to the process that forked this one; connect again after fork()"));
}

void Subscriber::Stop() {
  if (!fork_guard_.InForkedChild()) thread_->Remove(*this);
}

absl::Status Subscriber::Begin() {
  if (begun_) return absl::OkStatus();
  if (absl::Status added = thread_->Add(*this); !added.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen at ", server_, ": ", std::string(added.message())));
  }
  begun_ = true;
  return absl::OkStatus();
}

Subscriber::SubscriptionPtr Subscriber::Find(std::string_view channel) const {
  const auto known = subscriptions_.find(channel);
  return known == subscriptions_.end() ? nullptr : known->second;
}

void Subscriber::End(Subscription& subscription, absl::Status why) {
  subscription.state = State::kEnded;
  subscription.end = std::move(why);
  changed_.SignalAll();
  // While it was left, another may have taken its name.
  const auto known = subscriptions_.find(subscription.channel);
  if (known != subscriptions_.end() && known->second.get() == &subscription) {
    subscriptions_.erase(known);
  }
}

absl::Status Subscriber::Subscribe(std::string_view channel, base::Instant deadline,
                                   const std::stop_token& stop) {
  if (absl::Status refused = Refusal(); !refused.ok()) return refused;
  const std::stop_callback on_stop(stop, [this] {
    const base::MutexLock lock(mu_);
    changed_.SignalAll();
  });
  const base::MutexLock lock(mu_);
  SubscriptionPtr subscription = Find(channel);
  if (subscription == nullptr || subscription->state == State::kLeaving) {
    if (absl::Status begun = Begin(); !begun.ok()) return begun;
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

absl::Status Subscriber::Unsubscribe(std::string_view channel, base::Instant deadline) {
  if (absl::Status refused = Refusal(); !refused.ok()) return refused;
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

void Subscriber::MakeAnew() {
  if (fork_guard_.InForkedChild()) return;
  const base::MutexLock lock(mu_);
  if (make_anew_ || subscriptions_.empty() || !AllLive()) return;
  make_anew_ = true;
  WakeReader();
}

void Subscriber::Ping() {
  if (fork_guard_.InForkedChild()) return;
  const base::MutexLock lock(mu_);
  if (!connected_ || ping_) return;
  ping_ = true;
  WakeReader();
}

bool Subscriber::AllLive() const {
  return connected_ && std::none_of(subscriptions_.begin(), subscriptions_.end(),
                                    [](const auto& s) { return s.second->state == State::kAsked; });
}

bool Subscriber::live() const {
  if (fork_guard_.InForkedChild()) return false;
  const base::MutexLock lock(mu_);
  return AllLive();
}

std::optional<Peer> Subscriber::peer() const {
  if (fork_guard_.InForkedChild()) return std::nullopt;
  const base::MutexLock lock(mu_);
  return AllLive() ? peer_ : std::nullopt;
}

Subscriber::Stats Subscriber::stats() const {
  if (fork_guard_.InForkedChild()) return {};
  const base::MutexLock lock(mu_);
  return stats_;
}

}  // namespace redlatch::redis
