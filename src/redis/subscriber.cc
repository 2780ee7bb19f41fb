#include "src/redis/subscriber.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/subscriber_core.h"

namespace redlatch::redis {

Subscriber::Subscriber(const Url& url, SubscriberOptions options)
    : server_(url.DebugString()), core_(std::make_unique<Core>(url, std::move(options))) {}

Subscriber::~Subscriber() {
  if (!fork_guard_.InForkedChild()) return;
  core_->Abandon();
  (void)core_.release();
}

absl::Status Subscriber::Refusal() const {
  if (!fork_guard_.InForkedChild()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the subscriptions at ", server_,
                   " belong to the process that forked this one; connect anew after fork()"));
}

absl::Status Subscriber::Subscribe(std::string_view channel, base::Instant deadline) {
  absl::Status refused = Refusal();
  return refused.ok() ? core_->Subscribe(channel, deadline) : refused;
}

absl::Status Subscriber::Unsubscribe(std::string_view channel, base::Instant deadline) {
  absl::Status refused = Refusal();
  return refused.ok() ? core_->Unsubscribe(channel, deadline) : refused;
}

bool Subscriber::live() const { return !fork_guard_.InForkedChild() && core_->live(); }

Subscriber::Stats Subscriber::stats() const {
  return fork_guard_.InForkedChild() ? Stats() : core_->stats();
}

Subscriber::Core::Core(const Url& url, SubscriberOptions options)
    : options_(std::move(options)),
      server_(url.DebugString()),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      connector_(url, Handshake::Purpose::kSubscriptions, options_.open),
      backoff_(options_.first_backoff, options_.longest_backoff),
      buffer_(std::make_unique<char[]>(kReadSize)) {}

Subscriber::Core::~Core() {
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
  }
  WakeThread();
  if (thread_.joinable()) thread_.join();
}

void Subscriber::Core::Abandon() {
  transport_.reset();
  connector_.Abandon();
  wake_fd_.Reset();
}

absl::Status Subscriber::Core::StartThread() {
  if (thread_.joinable()) return absl::OkStatus();
  if (!wake_fd_.valid()) {
    return absl::UnavailableError(absl::StrCat("no descriptor was left for the subscriptions at ",
                                               server_, " (raise ulimit -n)"));
  }
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::UnavailableError(absl::StrCat("cannot start a thread for the subscriptions at ",
                                               server_, ": ", error.what()));
  }
  return absl::OkStatus();
}

void Subscriber::Core::WakeThread() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(wake_fd_.get(), &one, sizeof one);
}

bool Subscriber::Core::AwaitChange(const Subscription& subscription, State from,
                                   base::Instant deadline) {
  while (subscription.state == from) {
    if (deadline <= base::Now()) return false;
    changed_.WaitUntil(mu_, deadline);
  }
  return true;
}

void Subscriber::Core::End(Subscription& subscription, const absl::Status& why) {
  subscription.state = State::kEnded;
  subscription.end = why;
  changed_.SignalAll();
}

absl::Status Subscriber::Core::Subscribe(std::string_view channel, base::Instant deadline) {
  const base::MutexLock lock(mu_);
  SubscriptionPtr& known = subscriptions_[std::string(channel)];
  if (known == nullptr) {
    known = std::make_shared<Subscription>();
    known->channel = std::string(channel);
    requests_.push_back({Verb::kSubscribe, known});
    if (absl::Status started = StartThread(); !started.ok()) {
      requests_.pop_back();
      subscriptions_.erase(std::string(channel));
      return started;
    }
    WakeThread();
  }
  const SubscriptionPtr subscription = known;
  if (!AwaitChange(*subscription, State::kAsked, deadline)) {
    return absl::UnavailableError(absl::StrCat(
        connected_ || last_failure_.ok() ? server_ + " has not acknowledged the subscription"
                                         : std::string(last_failure_.message()),
        " (it goes on in the background)"));
  }
  return subscription->state == State::kLive ? absl::OkStatus() : subscription->end;
}

absl::Status Subscriber::Core::Unsubscribe(std::string_view channel, base::Instant deadline) {
  const base::MutexLock lock(mu_);
  const auto known = subscriptions_.find(channel);
  if (known == subscriptions_.end()) return absl::OkStatus();
  const SubscriptionPtr subscription = known->second;
  subscriptions_.erase(known);
  const absl::Status cancelled = absl::CancelledError("the channel was unsubscribed meanwhile");
  if (!connected_) {
    End(*subscription, cancelled);
    return absl::OkStatus();
  }
  subscription->state = State::kLeaving;
  subscription->end = cancelled;
  changed_.SignalAll();  // to a Subscribe() that waits
  requests_.push_back({Verb::kUnsubscribe, subscription});
  WakeThread();
  if (!AwaitChange(*subscription, State::kLeaving, deadline)) {
    return absl::UnavailableError(
        absl::StrCat(server_, " has not acknowledged that a subscription ends"));
  }
  return absl::OkStatus();
}

bool Subscriber::Core::live() const {
  const base::MutexLock lock(mu_);
  return connected_ && std::all_of(subscriptions_.begin(), subscriptions_.end(),
                                   [](const auto& s) { return s.second->state == State::kLive; });
}

Subscriber::Stats Subscriber::Core::stats() const {
  const base::MutexLock lock(mu_);
  return stats_;
}

}  // namespace redlatch::redis
