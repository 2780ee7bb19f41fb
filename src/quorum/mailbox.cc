#include "src/quorum/mailbox.h"

#include <optional>
#include <utility>

#include "src/base/fork_guard.h"
#include "src/base/wake_event.h"

namespace redlatch::quorum {
namespace {

// A thread's own, for all its rounds; a child of fork() has another.
class ThreadWake {
 public:
  base::WakeEvent& event() {
    if (!event_ || guard_->InForkedChild()) {
      event_.emplace();
      guard_.emplace();
    }
    event_->Open();
    return *event_;
  }

 private:
  std::optional<base::WakeEvent> event_;
  std::optional<base::ForkGuard> guard_;
};

base::WakeEvent& OfThisThread() {
  thread_local ThreadWake wake;
  return wake.event();
}

}  // namespace

std::shared_ptr<Mailbox> Mailbox::Open() {
  return std::shared_ptr<Mailbox>(new Mailbox(OfThisThread().fd()));
}

void Mailbox::Deliver(Letter letter) {
  const base::MutexLock lock(mu_);
  if (closed_) return;
  letters_.push_back(std::move(letter));
  // Under the mutex: once it is closed, the descriptor may be another's.
  if (std::this_thread::get_id() != owner_) base::WakeEvent::Signal(wake_fd_);
}

void Mailbox::Close() {
  const base::MutexLock lock(mu_);
  closed_ = true;
}

std::vector<Mailbox::Letter> Mailbox::Take() {
  const base::MutexLock lock(mu_);
  return std::exchange(letters_, {});
}

void Mailbox::DrainWake() { OfThisThread().Drain(); }

}  // namespace redlatch::quorum
