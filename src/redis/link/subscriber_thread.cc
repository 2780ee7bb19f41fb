// What the reader of a subscriber does; what its callers do is in subscriber.cc, and what it makes
// of the server's words in subscriber_answers.cc.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/link/subscriber.h"

namespace redlatch::redis {
namespace {

// Looking up a host or starting a server cannot be interrupted: the longest that a step of it, and
// with it the destructor, may take.
constexpr absl::Duration kDeafest = absl::Milliseconds(100);

// While messages are attended to, the connection is asked so often whether it is alive, and is
// given up if it does not answer for as long again.
constexpr absl::Duration kAttendedSilence = absl::Seconds(1);

}  // namespace

Awaited Subscriber::Turn(const Readiness& ready, int wake_fd) {
  bool idle = false;
  {
    const base::MutexLock lock(mu_);
    relievable_ = false;
    at_gate_ = false;
    if (StaysAway(base::Now())) return {.until = *nap_until_};
    idle = subscriptions_.empty();
  }
  if (dialogue_.transport != nullptr && !broken_) Take(ready);
  for (;;) {
    if (broken_) Break();
    if (dialogue_.transport == nullptr) {
      if (idle) {
        connector_.Abandon();
        return {};
      }
      if (base::Now() < comeback_.next_attempt()) return {.until = comeback_.next_attempt()};
      if (const std::optional<Awaited> awaited = Connect(wake_fd)) return *awaited;
    }
    Awaited next = Prepare(base::Instant::Infinite());
    if (broken_) continue;
    const base::MutexLock lock(mu_);
    relievable_ = true;
    at_gate_ = OpenGate(next);
    if (at_gate_) next.gate = gate_.fd();
    return next;
  }
}

// Nothing where it is done.
std::optional<Awaited> Subscriber::Connect(int wake_fd) {
  Awaited awaited{.until = base::Instant()};  // as long as nobody else wants a turn
  auto step =
      wake_fd >= 0 ? connector_.Step(base::Now() + kDeafest, wake_fd) : connector_.Poll(&awaited);
  if (!step.ok()) {
    comeback_.Failed();
    NotConnected(step.status());
    return Awaited{.until = comeback_.next_attempt()};
  }
  if (!step->has_value()) return awaited;
  dialogue_ = std::move((*step)->dialogue);
  last_read_ = base::Now();
  comeback_.Made();
  {
    const base::MutexLock lock(mu_);
    for (const auto& [channel, subscription] : subscriptions_) {
      requests_.push_back({Verb::kSubscribe, subscription});
    }
    restoring_ = requests_.size();
    connected_ = true;
    peer_ = Peer{.target = std::move((*step)->target), .since = last_read_};
    ++stats_.connects;
  }
  if (restoring_ == 0) Restored();
  return std::nullopt;
}

void Subscriber::NotConnected(const absl::Status& why) {
  lost_ = true;
  {
    const base::MutexLock lock(mu_);
    last_failure_ = why;
    if (!absl::IsUnavailable(why)) {
      // Whoever waits hears it at once; those that nobody else counts on end with that.
      ++refusals_;
      for (auto next = subscriptions_.begin(); next != subscriptions_.end();) {
        const SubscriptionPtr each = (next++)->second;
        if (!each->promised) End(*each, why);
      }
      changed_.SignalAll();
    }
  }
  if (options_.on_down) options_.on_down(why);
}

void Subscriber::Break() {
  const std::string why = *std::exchange(broken_, std::nullopt);
  {
    const base::MutexLock lock(mu_);
    gate_.Leave();  // before the connection is closed
    ++stats_.breaks;
    connected_ = false;
    make_anew_ = false;
    ping_ = false;
    peer_.reset();
    std::move(requests_.begin(), requests_.end(), std::back_inserter(pending_));
    requests_.clear();
    for (const ChannelRequest& request : std::exchange(pending_, {})) {
      // With the connection the server's side of it is gone.
      if (request.verb == Verb::kUnsubscribe) {
        End(*request.subscription, request.subscription->end);
      }
    }
    for (const auto& [channel, subscription] : subscriptions_) {
      subscription->state = State::kAsked;
    }
  }
  dialogue_ = Dialogue();
  NotConnected(
      absl::UnavailableError(absl::StrCat("lost the subscriptions at ", server_, ": ", why)));
  comeback_.Lost();
}

Awaited Subscriber::Prepare(base::Instant deadline) {
  std::vector<ChannelRequest> requests;
  bool wanted = false;
  bool ping = false;
  {
    const base::MutexLock lock(mu_);
    ping = std::exchange(ping_, false);
    if (make_anew_) {
      Fail("a new connection was asked for");
      return {};
    }
    requests.swap(requests_);
    wanted = !subscriptions_.empty();
    attended_ = attending_ > 0;
  }
  for (const ChannelRequest& request : requests) Ask(request);
  const base::Instant now = base::Now();
  const absl::Duration silence =
      attended_ ? std::min(options_.ping_interval, kAttendedSilence) : options_.ping_interval;
  if (pending_.empty() && wanted && (ping || last_read_ + silence <= now)) {
    Ask({Verb::kPing, nullptr});
  }
  Awaited awaited{.transport = dialogue_.transport.get(),
                  .interest = dialogue_.Write() | dialogue_.read_wants,
                  .until = deadline};
  if (!dialogue_.unwritable.empty()) {
    awaited.until = now;  // what it said before is read
  } else if (!pending_.empty()) {
    awaited.until = std::min(deadline, last_read_ + Patience());
  } else if (wanted) {
    // Nobody is woken to attend: that is looked for.
    awaited.until = std::min({deadline, last_read_ + silence, now + kAttendedSilence});
  }
  return awaited;
}

absl::Duration Subscriber::Patience() const {
  const bool pings = attended_ && pending_.front().verb == Verb::kPing;
  return pings ? std::min(options_.answer_timeout, kAttendedSilence) : options_.answer_timeout;
}

void Subscriber::Take(const Readiness& ready) {
  if (ready.Meets(dialogue_.read_wants)) return ReadSome();
  if (!dialogue_.unwritable.empty()) return Fail(dialogue_.unwritable);
  if (!pending_.empty() && last_read_ + Patience() <= base::Now()) {
    Fail("no answer within " + absl::FormatDuration(Patience()));
  }
}

void Subscriber::Ask(const ChannelRequest& request) {
  if (pending_.empty()) last_read_ = base::Now();
  switch (request.verb) {
    case Verb::kSubscribe:
      dialogue_.unwritten.append(
          Command{options_.sharded ? "SSUBSCRIBE" : "SUBSCRIBE", request.subscription->channel}
              .bytes());
      break;
    case Verb::kUnsubscribe:
      dialogue_.unwritten.append(
          Command{options_.sharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", request.subscription->channel}
              .bytes());
      break;
    case Verb::kPing:
      dialogue_.unwritten.append(Command{"PING"}.bytes());
      break;
  }
  pending_.push_back(request);
}

void Subscriber::ReadSome() {
  const absl::StatusOr<bool> got = dialogue_.Read();
  if (got.ok() && !*got) return;
  last_read_ = base::Now();
  arrived_.swap(dialogue_.replies);
  for (const Reply& reply : arrived_) {
    if (!broken_) Handle(reply);
  }
  arrived_.clear();
  if (!got.ok() && !broken_) Fail(std::string(got.status().message()));
}

}  // namespace redlatch::redis
