#include "src/engine/core.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/status.h"
#include "src/engine/permits.h"
#include "src/engine/readers.h"

namespace redlatch::engine {

Core::Inside::Inside(Core& core)
    : table({.unreachable_after = core.options_.unreachable_after, .numbers = &core.numbers_},
            static_cast<size_t>(std::max(core.options_.stats_names, 0)),
            [this](Entry& entry) {
              renewer.Remove(entry);
              notifier.Remove(entry);
            }),
      renewer(core, core.pace_.refresh),
      notifier(core) {}

Core::Inside::~Inside() {
  renewer.Stop();
  notifier.Stop();
}

Core::Core(redis::Url url, ClientOptions options, DescriptionPace pace)
    : url_(std::move(url)),
      options_(std::move(options)),
      observer_(options_.observer ? options_.observer : std::make_shared<Observer>()),
      identity_(NewIdentity()),
      pace_(pace),
      description_(DescribeCommand(identity_.client, ThisProcess(options_.program), absl::Now(),
                                   pace_.lifetime)),
      channel_(url_, {.on_reconnected = [this] { inside_->renewer.Reconnected(); },
                      .introduction = description_}),
      farewell_(channel_, identity_.client),
      scripts_(channel_),
      inside_(std::make_unique<Inside>(*this)) {
  subscriber_.emplace(
      url_,
      redis::SubscriberOptions{
          .on_message = [this](std::string_view, std::string_view message) { OnMessage(message); },
          .on_live_again = [this] { inside_->renewer.Reconnected(); },
          .on_down = [](const absl::Status&) {},
          // The next acquisition subscribes anew, or says why it cannot.
          .on_refused = [this](std::string_view, const absl::Status&) { listening_.store(false); },
      });
}

Core::~Core() {
  if (in_forked_child()) {
    (void)inside_.release();
    return;
  }
  subscriber_->Stop();
}

absl::Status Core::Refusal() const {
  if (!in_forked_child()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the locks at ", server(),
                   " belong to the process that forked this one; connect anew after fork()"));
}

ClientStats Core::Stats() {
  ClientStats stats{.server = server(), .name = url_.client_name, .id = identity_.client};
  if (in_forked_child()) return stats;
  const redis::Channel::Stats channel = channel_.stats();
  stats.connects = channel.connects;
  stats.breaks = channel.breaks;
  stats.reconnects = reconnects_.load(std::memory_order_relaxed);
  stats.late = channel.late;
  stats.locks = table().Stats();
  for (const LockStats& lock : stats.locks) stats.all += lock;
  return stats;
}

Subject Core::SubjectOf(const Entry& entry) const {
  const bool own = entry.owner.empty() || entry.plan->sharing == Sharing::kCounted;
  return {.identity = identity_,
          .keys = entry.keys,
          .plan = *entry.plan,
          .owner = own ? std::string_view(identity_.client) : entry.owner};
}

std::string Core::ReaderName(HoldNumber write_hold) {
  const uint64_t fresh = numbers_.fetch_add(1) + 1;
  if (write_hold == 0) return absl::StrCat("read:", fresh, ":", identity_.client);
  return absl::StrCat("nest:", fresh, ":", identity_.client, ":", write_hold);
}

std::string Core::FreshId() {
  return absl::StrCat(identity_.client, ":", numbers_.fetch_add(1) + 1);
}

Answer Core::Run(Entry& entry, const Send& send, base::Instant deadline) {
  Request request(SubjectOf(entry), send);
  const auto wanted = [&] {
    const base::MutexLock lock(entry.mu);
    return entry.machine.Wants(send);
  };
  return ReadAnswer(send, scripts_.Run(request.call(), deadline, wanted));
}

absl::Status Core::Listen(base::Instant deadline, const std::stop_token& stop) {
  if (listening_.load(std::memory_order_acquire)) return absl::OkStatus();
  absl::Status subscribed = subscriber_->Subscribe(identity_.channel, deadline, stop);
  if (subscribed.ok()) listening_.store(true, std::memory_order_release);
  return subscribed;
}

bool Core::OnGrant(Entry& entry, const Grant& grant) {
  bool known = false;
  Feed(entry, [&](LockMachine& machine, Effects& effects) {
    known = machine.OnGrant(grant, base::Now(), effects);
  });
  return known;
}

void Core::OnMessage(std::string_view text) {
  const std::optional<Message> message = ReadMessage(identity_, text);
  if (!message) return;
  const Grant& grant = message->grant;
  Table& table = inside_->table;
  Entry* const its = table.ReferTo(message->key, grant.hold);
  if (message->kind == Message::Kind::kForced) {
    if (its == nullptr) return;  // it is over
    Feed(*its, [&](LockMachine& machine, Effects&) { machine.OnForced(grant.hold, base::Now()); });
    table.Drop(*its);
    return;
  }
  bool known = false;
  if (its != nullptr) {
    known = OnGrant(*its, grant);
    table.Drop(*its);
  }
  if (known) return;
  table.Visit(message->key, [&](Entry& entry) { known = known || OnGrant(entry, grant); });
  table.Visit(message->key, [&](Entry& entry) {
    if (std::exchange(known, true)) return;  // one of them cancels it
    Feed(entry, [&](LockMachine& machine, Effects&) {
      machine.OnUnwanted(grant.hold, grant.lease, 1, base::Now());
    });
  });
}

void Core::Expire(Entry& entry) {
  Feed(entry, [](LockMachine& machine, Effects& effects) { machine.Expire(base::Now(), effects); });
  inside_->table.Drop(entry);
}

void Core::Reconnected() {
  reconnects_.fetch_add(1, std::memory_order_relaxed);
  inside_->notifier.Post(Notifier::Urgency::kNotice, [observer = observer_, server = server()] {
    observer->OnReconnected(server);
  });
  inside_->table.VisitAll([this](Entry& entry) {
    Feed(entry, [](LockMachine& machine, Effects&) { machine.OnReconnected(base::Now()); });
  });
}

void Core::Describe() {
  // Where there is no connection, the next one begins with it.
  channel_.Send(description_).IgnoreError();
}

void Core::Finish(Entry& entry, Effects& effects) {
  for (Waiter* const waiter : effects.wakes) {
    static_cast<ParkedWaiter*>(waiter)->parker.Set(ParkedWaiter::kWoken);
  }
  for (Waiter* const waiter : effects.through) {
    static_cast<ParkedWaiter*>(waiter)->parker.Set(ParkedWaiter::kThrough);
  }
  for (Loss& loss : effects.losses) Tell(entry, std::move(loss));
  for (Notice& notice : effects.notices) Tell(entry, std::move(notice));
}

void Core::Tell(const Entry& entry, Loss loss) {
  losses_.fetch_add(1, std::memory_order_release);
  if (loss.tenure.lost) {
    inside_->notifier.Post(
        Notifier::Urgency::kStopToken,
        [source = *std::move(loss.tenure.lost)]() mutable { source.request_stop(); });
  }
  LostLease lost{.lock = std::string(entry.keys.name()),
                 .server = server(),
                 .token = loss.tenure.token,
                 .reason = std::move(loss.reason)};
  inside_->notifier.Post(
      Notifier::Urgency::kCallback,
      [observer = observer_, options = std::move(loss.tenure.options), lost = std::move(lost)] {
        observer->OnLost(lost);
        if (options->on_lost) options->on_lost(lost);
      });
}

void Core::Tell(const Entry& entry, Notice notice) {
  if (options_.observer == nullptr) return;
  auto tell = [observer = observer_, lock = std::string(entry.keys.name()),
               notice = std::move(notice)] {
    switch (notice.kind) {
      case Notice::Kind::kRenewed:
        return observer->OnRenewed(lock, notice.token);
      case Notice::Kind::kAtRisk:
        return observer->OnAtRisk(lock, notice.token, notice.remaining, notice.why);
      case Notice::Kind::kRecovered:
        return observer->OnRecovered(lock, notice.token);
    }
  };
  inside_->notifier.Post(Notifier::Urgency::kNotice, std::move(tell));
}

}  // namespace redlatch::engine
