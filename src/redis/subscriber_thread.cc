// What the subscriber's thread does; what its callers do is in subscriber.cc.
#include <poll.h>
#include <unistd.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/errors.h"
#include "src/redis/subscriber_core.h"

namespace redlatch::redis {

void Subscriber::Core::Run() {
  for (;;) {
    bool idle = false;
    {
      const base::MutexLock lock(mu_);
      if (stopping_) return;
      idle = subscriptions_.empty() && requests_.empty();
    }
    if (transport_ != nullptr) {
      Serve();
    } else if (idle) {
      SleepUntil(base::Instant::Infinite());
    } else if (base::Now() < next_attempt_) {
      SleepUntil(next_attempt_);
    } else {
      Connect();
    }
  }
}

// Ends early when the thread is woken, whatever for.
void Subscriber::Core::SleepUntil(base::Instant deadline) {
  pollfd wake = {.fd = wake_fd_.get(), .events = POLLIN, .revents = 0};
  if (poll(&wake, 1, base::PollTimeout(deadline)) <= 0) return;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(wake_fd_.get(), &count, sizeof count);
}

void Subscriber::Core::Connect() {
  auto step = connector_.Step(base::Instant::Infinite(), wake_fd_.get());
  if (!step.ok()) return NotConnected(step.status());
  if (!step->has_value()) return SleepUntil(base::Now());  // woken
  transport_ = std::move((*step)->transport);
  parser_ = std::move((*step)->parser);
  out_.clear();
  pending_.clear();
  last_read_ = base::Now();
  backoff_.Reset();
  const base::MutexLock lock(mu_);
  requests_.clear();
  for (const auto& [channel, subscription] : subscriptions_) {
    requests_.push_back({Verb::kSubscribe, subscription});
  }
  connected_ = true;
  ++stats_.connects;
}

void Subscriber::Core::NotConnected(const absl::Status& why) {
  next_attempt_ = base::Now() + backoff_.Next();
  lost_ = true;
  {
    const base::MutexLock lock(mu_);
    last_failure_ = why;
    // Where the server refuses this client, whoever waits for a first acknowledgement hears so.
    if (!absl::IsUnavailable(why)) {
      for (const Request& request : std::exchange(requests_, {})) {
        subscriptions_.erase(request.subscription->channel);
        End(*request.subscription, why);
      }
    }
  }
  if (options_.on_down) options_.on_down(why);
}

void Subscriber::Core::Break(const std::string& why) {
  transport_.reset();
  parser_.reset();
  {
    const base::MutexLock lock(mu_);
    ++stats_.breaks;
    connected_ = false;
    std::move(pending_.begin(), pending_.end(), std::back_inserter(requests_));
    pending_.clear();
    std::vector<Request> unanswered;
    for (const Request& request : std::exchange(requests_, {})) {
      if (request.verb == Verb::kUnsubscribe) End(*request.subscription, request.subscription->end);
      if (request.verb == Verb::kSubscribe && request.subscription->state == State::kAsked) {
        unanswered.push_back(request);
      }
    }
    requests_ = std::move(unanswered);
    for (const auto& [channel, subscription] : subscriptions_) {
      subscription->state = State::kAsked;
    }
  }
  NotConnected(
      absl::UnavailableError(absl::StrCat("lost the subscriptions at ", server_, ": ", why)));
  next_attempt_ = base::Now();  // only attempts that fail are held back
}

void Subscriber::Core::Serve() {
  std::vector<Request> requests;
  bool wanted = false;
  {
    const base::MutexLock lock(mu_);
    requests.swap(requests_);
    wanted = !subscriptions_.empty();
  }
  for (const Request& request : requests) Ask(request);
  const base::Instant now = base::Now();
  if (pending_.empty() && wanted && last_read_ + options_.ping_interval <= now) {
    Ask({Verb::kPing, nullptr});
  }
  Flush();
  if (transport_ == nullptr) return;

  base::Instant until = base::Instant::Infinite();
  if (!pending_.empty()) {
    until = last_read_ + options_.answer_timeout;
  } else if (wanted) {
    until = last_read_ + options_.ping_interval;
  }
  const auto interest =
      out_.empty() ? Transport::Interest::kRead : Transport::Interest::kReadAndWrite;
  const Readiness ready = transport_->Wait(interest, wake_fd_.get(), until);
  if (ready.woken) SleepUntil(base::Now());
  if (ready.readable) return ReadSome();
  if (!pending_.empty() && last_read_ + options_.answer_timeout <= base::Now()) {
    Break("no answer within " + absl::FormatDuration(options_.answer_timeout));
  }
}

void Subscriber::Core::Ask(const Request& request) {
  if (pending_.empty()) last_read_ = base::Now();
  switch (request.verb) {
    case Verb::kSubscribe:
      out_.append(Command{"SUBSCRIBE", request.subscription->channel}.bytes());
      break;
    case Verb::kUnsubscribe:
      out_.append(Command{"UNSUBSCRIBE", request.subscription->channel}.bytes());
      break;
    case Verb::kPing:
      out_.append(Command{"PING"}.bytes());
      break;
  }
  pending_.push_back(request);
}

void Subscriber::Core::Flush() {
  while (!out_.empty()) {
    const IoResult put = transport_->Write(out_);
    if (put.kind == IoResult::Kind::kAgain) return;
    if (put.kind != IoResult::Kind::kDone) return Break(Describe(put));
    out_.erase(0, put.bytes);
  }
}

void Subscriber::Core::ReadSome() {
  const IoResult got = transport_->Read(buffer_.get(), kReadSize);
  if (got.kind == IoResult::Kind::kAgain) return;
  if (got.kind != IoResult::Kind::kDone) return Break(Describe(got));
  last_read_ = base::Now();
  parser_->Feed({buffer_.get(), got.bytes});
  while (transport_ != nullptr) {
    auto reply = parser_->Next();
    if (!reply.ok()) return Break(std::string(reply.status().message()));
    if (!reply->has_value()) return AnnounceWhenLive();
    Handle(**reply);
  }
}

void Subscriber::Core::Handle(const Reply& reply) {
  if (reply.elements.size() == 3 && reply.elements[0].text == "message") {
    return HandleMessage(reply.elements[1].text, reply.elements[2].text);
  }
  if (pending_.empty()) return Break("it said what nobody asked: " + reply.DebugString());
  HandleAnswer(reply);
}

void Subscriber::Core::HandleMessage(const std::string& channel, const std::string& message) {
  {
    const base::MutexLock lock(mu_);
    const auto known = subscriptions_.find(channel);
    if (known == subscriptions_.end() || known->second->state != State::kLive) return;
    ++stats_.messages;
  }
  if (options_.on_message) options_.on_message(channel, message);
}

void Subscriber::Core::HandleAnswer(const Reply& reply) {
  const Request request = std::move(pending_.front());
  pending_.pop_front();
  if (request.verb == Verb::kPing) return;  // whatever it said, it is alive
  if (reply.is_error()) {
    absl::Status why = ErrorStatus(reply.text, server_);
    if (request.verb != Verb::kSubscribe || absl::IsUnavailable(why)) {
      return Break(std::string(why.message()));
    }
    const base::MutexLock lock(mu_);
    const auto known = subscriptions_.find(request.subscription->channel);
    if (known != subscriptions_.end() && known->second == request.subscription) {
      subscriptions_.erase(known);
    }
    return End(*request.subscription, why);
  }
  const std::string expected = request.verb == Verb::kSubscribe ? "subscribe" : "unsubscribe";
  if (reply.elements.empty() || reply.elements[0].text != expected) {
    return Break("it answered " + reply.DebugString() + " in place of " + expected);
  }
  const base::MutexLock lock(mu_);
  Subscription& subscription = *request.subscription;
  if (request.verb == Verb::kUnsubscribe) {
    End(subscription, subscription.end);
  } else if (subscription.state == State::kAsked) {
    subscription.state = State::kLive;
    changed_.SignalAll();
  }
}

void Subscriber::Core::AnnounceWhenLive() {
  if (!lost_ || !live()) return;
  lost_ = false;
  if (options_.on_live_again) options_.on_live_again();
}

}  // namespace redlatch::redis
