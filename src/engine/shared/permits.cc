#include "src/engine/shared/permits.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace redlatch::engine {
namespace {

constexpr size_t kMostFree = 64;

}  // namespace

struct Permits::Loan {
  Loan(std::shared_ptr<Permits> lender, std::shared_ptr<Handle> lent)
      : permits(std::move(lender)), handle(std::move(lent)) {}
  ~Loan() { permits->Return(std::move(handle)); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  const std::shared_ptr<Permits> permits;
  std::shared_ptr<Handle> handle;
};

Permits::~Permits() {
  if (!core_->in_forked_child()) core_->permits().Forget(name_);
}

absl::StatusOr<std::shared_ptr<Handle>> Permits::Borrow() {
  std::shared_ptr<Handle> handle;
  {
    const base::MutexLock lock(mu_);
    if (!free_.empty()) {
      handle = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (handle == nullptr) {
    auto made = Handle::Attach(core_, name_, core_->FreshId(), plan_);
    if (!made.ok()) return made.status();
    handle = *std::move(made);
  }
  Handle* const lent = handle.get();
  auto loan = std::make_shared<Loan>(shared_from_this(), std::move(handle));
  return std::shared_ptr<Handle>(std::move(loan), lent);
}

void Permits::Return(std::shared_ptr<Handle> handle) {
  if (core_->in_forked_child() || !handle->vacant()) return;  // what it owes ends without a handle
  const base::MutexLock lock(mu_);
  if (free_.size() < kMostFree) free_.push_back(std::move(handle));
}

absl::StatusOr<Handle::Held> Permits::Acquire(const Want& want) {
  auto handle = Borrow();
  if (!handle.ok()) return handle.status();
  absl::StatusOr<Won> won = (*handle)->Acquire(want);
  if (!won.ok()) return won.status();
  return Handle::Held{
      .handle = *std::move(handle), .tenure = won->tenure, .view = std::move(won->view)};
}

absl::Status Permits::Keep(Handle::Held held) {
  {
    const base::MutexLock lock(mu_);
    if (objects_ > 0) {
      kept_.push_back(std::move(held));
      return absl::OkStatus();
    }
  }
  Handle::ReleaseAll(absl::MakeConstSpan(&held, 1));
  return absl::CancelledError(absl::StrCat(
      "semaphore \"", name_, "\": its last object was destroyed while this call was waiting"));
}

absl::Status Permits::GiveBack(size_t count) {
  std::vector<Handle::Held> going;
  {
    const base::MutexLock lock(mu_);
    const size_t all = kept_.size() + lost_.size();
    if (all < count) {
      return absl::FailedPreconditionError(absl::StrCat(
          "semaphore \"", name_, "\": ", count, " permits cannot be released, because only ", all,
          " are held by this client"));
    }
    SortOutLost();
    for (std::vector<Handle::Held>* from : {&lost_, &kept_}) {
      while (going.size() < count && !from->empty()) {
        going.push_back(std::move(from->back()));
        from->pop_back();
      }
    }
  }
  Handle::ReleaseAll(going);
  return absl::OkStatus();
}

void Permits::SortOutLost() {
  const uint64_t losses = core_->losses();
  if (losses == losses_seen_) return;
  losses_seen_ = losses;
  const base::Instant now = base::Now();
  const auto first_lost =
      std::partition(kept_.begin(), kept_.end(),
                     [now](const Handle::Held& held) { return held.view->Valid(now); });
  lost_.insert(lost_.end(), std::make_move_iterator(first_lost),
               std::make_move_iterator(kept_.end()));
  kept_.erase(first_lost, kept_.end());
}

void Permits::Enter() {
  const base::MutexLock lock(mu_);
  ++objects_;
}

void Permits::Leave(const void* object) {
  // There nothing is stopped or released; but what was kept, and this, keep each other.
  if (core_->in_forked_child() && !mu_.IsFree()) return;
  core_->StopAll(name_, object);
  std::vector<Handle::Held> going;
  {
    const base::MutexLock lock(mu_);
    if (--objects_ > 0) return;
    going.swap(kept_);
    std::move(lost_.begin(), lost_.end(), std::back_inserter(going));
    lost_.clear();
  }
  Handle::ReleaseAll(going);
}

}  // namespace redlatch::engine
