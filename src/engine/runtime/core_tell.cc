// What a client tells its user, on threads of its own.
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "src/engine/runtime/about.h"
#include "src/engine/runtime/core.h"

namespace redlatch::engine {

void Core::TellLater(std::function<void(Observer&)> event) {
  inside_->notifier.Post(Notifier::Urgency::kNotice,
                         [observer = observer_, event = std::move(event)] {
                           RunUsersCode("an Observer", [&] { event(*observer); });
                         });
}

void Core::TellReleasedLater(const Entry& entry, const Released& released) {
  TellLater([lock = std::string(entry.name()), token = released.token,
             status = StatusOf(*this, entry, released)](Observer& observer) {
    observer.OnReleased(lock, token, status);
  });
}

void Core::TellAcquiredLater(const Entry& entry, FencingToken token, absl::Duration waited,
                             const absl::Status& status) {
  TellLater([lock = std::string(entry.name()), token, waited, status](Observer& observer) {
    status.ok() ? observer.OnAcquired(lock, token, waited)
                : observer.OnWaitEnded(lock, waited, status);
  });
}

void Core::TellWhetherItHears(bool hears, std::string_view why) {
  TellLater([hears, why = std::string(why), server = server()](Observer& observer) {
    hears ? observer.OnHearsAgain(server) : observer.OnDeaf(server, why);
  });
}

void Core::Post(const Entry& entry, Loss loss) {
  losses_.fetch_add(1, std::memory_order_release);
  std::shared_ptr<HoldView> view = std::move(loss.hold.view);
  if (view != nullptr) {
    inside_->notifier.Post(Notifier::Urgency::kStopToken, [view] { view->Fire(); });
  }
  LostLease lost{.lock = std::string(entry.name()),
                 .server = server(entry.keys.main()),
                 .token = loss.hold.token,
                 .reason = std::move(loss.reason)};
  inside_->notifier.Post(Notifier::Urgency::kCallback,
                         [observer = observer_, options = std::move(loss.hold.options),
                          lost = std::move(lost), view = std::move(view)] {
                           // The thread that does it may not have come to it.
                           if (view != nullptr) view->Fire();
                           RunUsersCode("an Observer", [&] { observer->OnLost(lost); });
                           if (options->on_lost)
                             RunUsersCode("on_lost", [&] { options->on_lost(lost); });
                         });
}

void Core::Post(const Entry& entry, Notice notice) {
  if (!observed() && notice.kind != Notice::Kind::kReleaseFailed) return;
  TellLater([lock = std::string(entry.name()), what = std::move(notice)](Observer& observer) {
    switch (what.kind) {
      case Notice::Kind::kRenewed:
        return observer.OnRenewed(lock, what.token);
      case Notice::Kind::kAtRisk:
        return observer.OnAtRisk(lock, what.token, what.remaining, what.why);
      case Notice::Kind::kRecovered:
        return observer.OnRecovered(lock, what.token);
      case Notice::Kind::kReleaseFailed:
        return observer.OnReleaseFailed(lock, what.token, what.remaining, what.why);
    }
  });
}

}  // namespace redlatch::engine
