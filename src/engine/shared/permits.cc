#include "src/engine/shared/permits.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace redlatch::engine {
namespace {

constexpr size_t kMostFree = 64;

}  // namespace

absl::StatusOr<std::shared_ptr<LockSession>> Permits::Borrow() {
  std::shared_ptr<LockSession> session;
  {
    const base::MutexLock lock(mu_);
    if (!free_.empty()) {
      session = std::move(free_.front());  // the server has answered it, most likely
      free_.pop_front();
    }
  }
  if (session == nullptr) {
    auto made = LockSession::Attach(core_, name_, core_->FreshId(), plan_);
    if (!made.ok()) return made.status();
    session = *std::move(made);
  }
  LockSession* const lent = session.get();
  return std::shared_ptr<LockSession>(
      lent, [permits = shared_from_this(), session = std::move(session)](LockSession*) mutable {
        permits->Reclaim(std::move(session));
      });
}

void Permits::Reclaim(std::shared_ptr<LockSession> session) {
  if (core_->in_forked_child() || !session->reusable())
    return;  // what it owes ends without a session
  const base::MutexLock lock(mu_);
  try {
    if (free_.size() < kMostFree) free_.push_back(std::move(session));
  } catch (const std::bad_alloc&) {  // the next one is made
  }
}

absl::StatusOr<SessionHold> Permits::Acquire(const Want& want) {
  auto session = Borrow();
  if (!session.ok()) return session.status();
  absl::StatusOr<Held> held = (*session)->Acquire(want);
  if (!held.ok()) return held.status();
  return SessionHold{.session = *std::move(session), .held = *std::move(held)};
}

absl::Status Permits::Keep(SessionHold hold) {
  bool no_memory = false;
  {
    const base::MutexLock lock(mu_);
    try {
      if (objects_ > 0) {
        kept_.push_back(std::move(hold));
        return absl::OkStatus();
      }
    } catch (const std::bad_alloc&) {
      no_memory = true;
    }
  }
  LockSession::ReleaseAll(absl::MakeConstSpan(&hold, 1));
  if (no_memory) return base::NoMemory();
  return absl::CancelledError(absl::StrCat(
      "semaphore \"", name_, "\": its last object was destroyed while this call was waiting"));
}

absl::Status Permits::Release(size_t count) {
  absl::InlinedVector<SessionHold, 4> going;
  {
    const base::MutexLock lock(mu_);
    const size_t all = kept_.size() + lost_.size();
    if (all < count) {
      return absl::FailedPreconditionError(absl::StrCat(
          "semaphore \"", name_, "\": ", count, " permits cannot be released, because only ", all,
          " are held by this client"));
    }
    going.reserve(count);
    SortOutLost();
    for (std::vector<SessionHold>* from : {&lost_, &kept_}) {
      while (going.size() < count && !from->empty()) {
        going.push_back(std::move(from->back()));
        from->pop_back();
      }
    }
  }
  LockSession::ReleaseAll(going);
  return absl::OkStatus();
}

void Permits::SortOutLost() {
  const uint64_t losses = core_->losses();
  if (losses == losses_seen_) return;
  const base::Instant now = base::Now();
  const auto first_lost =
      std::partition(kept_.begin(), kept_.end(),
                     [now](const SessionHold& hold) { return hold.held.view->Valid(now); });
  lost_.insert(lost_.end(), std::make_move_iterator(first_lost),
               std::make_move_iterator(kept_.end()));
  kept_.erase(first_lost, kept_.end());
  losses_seen_ = losses;
}

void Permits::AddObject() {
  const base::MutexLock lock(mu_);
  ++objects_;
}

void Permits::RemoveObject(const void* object) {
  // There nothing is stopped or released; but what was kept, and this, keep each other.
  if (core_->in_forked_child() && !mu_.IsFree()) return;
  core_->StopAll(name_, object);
  std::vector<SessionHold> going;
  {
    const base::MutexLock lock(mu_);
    if (--objects_ > 0) return;
    going.swap(kept_);
    std::move(lost_.begin(), lost_.end(), std::back_inserter(going));
    lost_.clear();
  }
  LockSession::ReleaseAll(going);
}

}  // namespace redlatch::engine
