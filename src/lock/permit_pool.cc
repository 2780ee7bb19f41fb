#include "src/lock/permit_pool.h"

#include <algorithm>
#include <iterator>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/error_address.h"
#include "src/base/status.h"
#include "src/base/utf8.h"

namespace redlatch::internal {
namespace {

constexpr size_t kMostFree = 64;

}  // namespace

// Another handle of a pool's entry. The pool gets the entry back as soon as the permit is over,
// even if the user keeps the Permit.
class PermitPool::Loan final : public LockHandle {
 public:
  Loan(std::shared_ptr<PermitPool> pool, std::shared_ptr<LockHandle> handle)
      : LockHandle(*handle), pool_(std::move(pool)), handle_(std::move(handle)) {}
  ~Loan() override { Return(); }

  absl::Status Release(uint64_t hold, FencingToken token) noexcept override {
    absl::Status released = LockHandle::Release(hold, token);
    Return();
    return released;
  }
  void ReleaseAsync(uint64_t hold, FencingToken token, Then then) noexcept override {
    LockHandle::ReleaseAsync(hold, token, std::move(then));
    Return();
  }

 private:
  void Return() {
    if (pool_ != nullptr && pool_->Reclaim(handle_)) pool_.reset();
  }

  std::shared_ptr<PermitPool> pool_;  // null once it has the handle
  const std::shared_ptr<LockHandle> handle_;
};

absl::StatusOr<std::shared_ptr<LockHandle>> PermitPool::Lend(bool cached) {
  std::shared_ptr<LockHandle> handle;
  {
    const base::MutexLock lock(mu_);
    if (cached && !cached_.empty()) {
      handle = std::move(cached_.back());
      cached_.pop_back();
    } else if (!free_.empty()) {
      handle = std::move(free_.front());  // the server has most likely answered its release
      free_.pop_front();
    }
  }
  if (handle == nullptr) {
    auto made = Fresh();
    if (!made.ok()) return made.status();
    handle = *std::move(made);
  }
  return std::make_shared<Loan>(shared_from_this(), std::move(handle));
}

bool PermitPool::Reclaim(const std::shared_ptr<LockHandle>& handle) {
  if (core_->in_forked_child()) return false;
  const bool cached = handle->caches();
  if (!cached && !handle->reusable()) return false;  // pending cleanups do not need the handle
  {
    const base::MutexLock lock(mu_);
    const bool room = free_.size() + cached_.size() < kMostFree;
    if (cached && room && objects_ > 0) return base::Append(cached_, handle), true;
    if (!cached && room) base::Append(free_, handle);
  }
  // No thread can come for the permit.
  if (cached) handle->GiveBackCached();
  return true;
}

absl::StatusOr<OwnedHold> PermitPool::Acquire(const AcquireCall& call) {
  auto handle = Lend(/*cached=*/true);
  if (!handle.ok()) return handle.status();
  absl::StatusOr<HoldRef> held = (*handle)->Acquire(call);
  if (!held.ok()) return held.status();
  return OwnedHold{.handle = *std::move(handle), .held = *std::move(held)};
}

absl::Status PermitPool::Keep(OwnedHold hold) {
  {
    const base::MutexLock lock(mu_);
    if (objects_ > 0) return base::Append(permits_, std::move(hold)), absl::OkStatus();
  }
  LockHandle::ReleaseAll(absl::MakeConstSpan(&hold, 1));
  return absl::CancelledError(
      absl::StrCat("semaphore ", base::Quoted(name_),
                   ": its last object was destroyed while this call was waiting"));
}

absl::Status PermitPool::Release(size_t count) {
  absl::InlinedVector<OwnedHold, 4> going;
  {
    const base::MutexLock lock(mu_);
    const size_t all = permits_.size() + lost_.size();
    if (all < count) {
      return base::WithAddress(absl::FailedPreconditionError(absl::StrCat(
          "semaphore ", base::Quoted(name_), ": ", count,
          " permits cannot be released, because only ", all, " are held by this client")));
    }
    going.reserve(count);
    CollectLost();
    for (std::vector<OwnedHold>* from : {&lost_, &permits_}) {
      while (going.size() < count && !from->empty()) {
        going.push_back(std::move(from->back()));
        from->pop_back();
      }
    }
  }
  LockHandle::ReleaseAll(going);
  return absl::OkStatus();
}

void PermitPool::CollectLost() {
  const uint64_t losses = core_->losses();
  if (losses == losses_seen_) return;
  const base::Instant now = base::Now();
  const auto first_lost =
      std::partition(permits_.begin(), permits_.end(),
                     [now](const OwnedHold& hold) { return hold.held.view->Valid(now); });
  lost_.insert(lost_.end(), std::make_move_iterator(first_lost),
               std::make_move_iterator(permits_.end()));
  permits_.erase(first_lost, permits_.end());
  losses_seen_ = losses;
}

void PermitPool::AddObject() {
  const base::MutexLock lock(mu_);
  ++objects_;
}

void PermitPool::RemoveObject(const void* object) {
  // In the child nothing is released. The kept permits and this object keep each other alive.
  if (core_->in_forked_child() && !mu_.IsFree()) return;
  core_->StopAll(name_, object);
  std::vector<OwnedHold> going;
  std::vector<std::shared_ptr<LockHandle>> cached;
  {
    const base::MutexLock lock(mu_);
    if (--objects_ > 0) return;
    cached.swap(cached_);
    going.swap(permits_);
    std::move(lost_.begin(), lost_.end(), std::back_inserter(going));
    lost_.clear();
  }
  LockHandle::ReleaseAll(going);
  for (const auto& handle : cached) handle->GiveBackCached();
}

}  // namespace redlatch::internal
