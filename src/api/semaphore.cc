#include "redlatch/semaphore.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "redlatch/status.h"
#include "src/api/throw.h"
#include "src/base/mutex.h"
#include "src/lock/client_core.h"
#include "src/lock/kinds.h"
#include "src/lock/permit_pool.h"
#include "src/lock/users_code.h"

namespace redlatch {
namespace {

namespace kinds = internal::kinds;

constexpr int64_t kMostPermits = 1'000'000'000;

internal::LockType PlanOfSemaphores() {
  return {.scripts = {.acquire = lua::kSemaphoreAcquire,
                      .release = lua::kSemaphoreRelease,
                      .renew = lua::kSemaphoreRenew,
                      .cancel = lua::kSemaphoreCancel,
                      .inspect = lua::kSemaphoreInspect,
                      .force_release = lua::kSemaphoreForceRelease},
          .traits = {.kind = kinds::kSemaphore},
          .use = internal::GrantUse::kPermit,
          .noun = "semaphore",
          .busy = "too few of its permits are free, or others came first",
          .keys = internal::KeyNames(kinds::kSemaphore, {std::string(kinds::kPermitsSuffix)}),
          .forced_key = kinds::kForcedSuffix};
}

}  // namespace

// What a semaphore object is; a call that is under way keeps it.
class Semaphore::SemaphoreBody {
 public:
  SemaphoreBody(std::shared_ptr<internal::ClientCore> core, std::string_view name, int64_t capacity,
                SemaphoreOptions options)
      : core_(std::move(core)),
        name_(name),
        capacity_(capacity),
        options_(std::make_shared<const LockOptions>(
            LockOptions{.lease = options.lease, .on_lost = std::move(options.on_lost)})) {}

  // The object goes: its calls that wait end.
  void Close() {
    if (core_->in_forked_child() && !mu_.IsFree()) return;
    gone_ = true;
    std::shared_ptr<internal::PermitPool> permits;
    {
      const base::MutexLock lock(mu_);
      permits = permits_;
    }
    if (permits != nullptr) permits->RemoveObject(this);
  }

  const std::string& name() const { return name_; }

  absl::StatusOr<std::shared_ptr<internal::PermitPool>> PermitPool() {
    if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
    if (absl::Status bad = Check(capacity_, "a capacity"); !bad.ok()) return bad;
    const base::MutexLock lock(mu_);
    if (permits_ == nullptr) {
      permits_ = core_->permits().Of(name_, [&] {
        return std::make_shared<internal::PermitPool>(core_, name_, PlanOfSemaphores());
      });
      permits_->AddObject();
    }
    return permits_;
  }

  absl::StatusOr<internal::OwnedHold> Acquire(int64_t count, const AcquireOptions& options) {
    absl::StatusOr<internal::Want> want = WantOf(count, options);
    if (!want.ok()) return want.status();
    const auto permits = PermitPool();
    if (!permits.ok()) return permits.status();
    return (*permits)->Acquire(*want);
  }

  void AcquireAsync(int64_t count, const AcquireOptions& options,
                    internal::LockHandle::Finish finish) {
    const auto fail = [&](const absl::Status& why) {
      core_->async().Complete(std::move(finish)(why));
    };
    absl::StatusOr<internal::Want> want = WantOf(count, options);
    if (!want.ok()) return fail(want.status());
    const auto permits = PermitPool();
    if (!permits.ok()) return fail(permits.status());
    const auto handle = (*permits)->Fresh();
    if (!handle.ok()) return fail(handle.status());
    (*handle)->AcquireAsync(*std::move(want), std::move(finish));
  }

  absl::StatusOr<internal::Want> WantOf(int64_t count, const AcquireOptions& options) const {
    if (absl::Status bad = Check(count, "a request"); !bad.ok()) return bad;
    return internal::Want{.terms = {.lease = options.lease.value_or(options_->lease),
                                    .manual = options.lease.has_value(),
                                    .whole = options.whole_lease,
                                    .permits = static_cast<uint32_t>(count),
                                    .capacity = static_cast<uint32_t>(capacity_)},
                          .wait = options.wait,
                          .stop = options.stop,
                          .options = options_,
                          .object = this,
                          .gone = &gone_};
  }

  // With so many waiters; none: only the numbers.
  absl::StatusOr<LockInfo> Inspect(int most_waiters) {
    const auto handle = Borrow();
    if (!handle.ok()) return handle.status();
    absl::StatusOr<LockInfo> info = (*handle)->Inspect(most_waiters);
    if (info.ok() && info->capacity == 0) info->capacity = capacity_;  // nobody has used it yet
    return info;
  }

  absl::Status ForceRelease() {
    const auto handle = Borrow();
    if (!handle.ok()) return handle.status();
    return (*handle)->ForceRelease();
  }

  absl::Status SetCapacity(int64_t capacity) {
    if (absl::Status bad = Check(capacity, "a capacity"); !bad.ok()) return bad;
    const auto handle = Borrow();
    if (!handle.ok()) return handle.status();
    return (*handle)->RunAll(lua::kSemaphoreSetCapacity, absl::StrCat(capacity));
  }

  // A session for scripts that are no part of a hold.
  absl::StatusOr<std::shared_ptr<internal::LockHandle>> Borrow() {
    const auto permits = PermitPool();
    if (!permits.ok()) return permits.status();
    return (*permits)->Borrow();
  }

  absl::Status Check(int64_t count, std::string_view what) const {
    if (1 <= count && count <= kMostPermits) return absl::OkStatus();
    return Bad(absl::StrCat(std::string(what), " of ", count,
                            " permits is not possible; it must be 1 to ", kMostPermits));
  }

 private:
  absl::Status Bad(std::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("semaphore \"", absl::CHexEscape(name_), "\": ", std::string(why)));
  }

  const std::shared_ptr<internal::ClientCore> core_;
  const std::string name_;
  const int64_t capacity_;
  const std::shared_ptr<const LockOptions> options_;
  std::atomic<bool> gone_{false};
  base::Mutex mu_;
  std::shared_ptr<internal::PermitPool> permits_ ABSL_GUARDED_BY(mu_);  // null before the first use
};

Semaphore::Semaphore(Client client, std::string_view name, int64_t capacity,
                     SemaphoreOptions options)
    : body_(std::make_shared<SemaphoreBody>(std::move(client.core_), name, capacity,
                                            std::move(options))) {}

Semaphore::~Semaphore() { body_->Close(); }

const std::string& Semaphore::name() const { return body_->name(); }

bool Semaphore::TryAcquireFor(absl::Duration wait) {
  const std::shared_ptr<SemaphoreBody> body = body_;
  const auto permits = body->PermitPool();
  if (!permits.ok()) Throw(permits.status());
  auto held = body->Acquire(1, {.wait = wait});
  if (IsBusy(held.status())) return false;
  if (!held.ok()) Throw(held.status());
  if (absl::Status kept = (*permits)->Keep(*std::move(held)); !kept.ok()) Throw(kept);
  return true;
}

void Semaphore::release(std::ptrdiff_t permits) {
  if (permits == 0) return;
  const std::shared_ptr<SemaphoreBody> body = body_;
  const auto all = body->PermitPool();
  if (!all.ok()) Throw(all.status());
  if (permits < 0) Throw(body->Check(permits, "a release"));
  if (absl::Status few = (*all)->Release(static_cast<size_t>(permits)); !few.ok()) Throw(few);
}

absl::StatusOr<Permit> Semaphore::Acquire(int64_t permits, const AcquireOptions& options) {
  auto taken = std::shared_ptr<SemaphoreBody>(body_)->Acquire(permits, options);
  if (!taken.ok()) return taken.status();
  return Permit(Lease(std::move(taken->handle), taken->held.hold, std::move(taken->held.view),
                      FencingToken()),
                permits);
}

void Semaphore::AcquireAsync(int64_t permits, const AcquireOptions& options,
                             AcquireCallback callback) {
  body_->AcquireAsync(permits, options,
                      [permits, told = internal::NotNull(std::move(callback))](
                          absl::StatusOr<internal::OwnedHold> taken) mutable {
                        absl::StatusOr<Permit> permit;
                        if (!taken.ok()) {
                          permit = taken.status();
                        } else {
                          permit = Permit(Lease(std::move(taken->handle), taken->held.hold,
                                                std::move(taken->held.view), FencingToken()),
                                          permits);
                        }
                        return [told = std::move(told), permit = std::move(permit)]() mutable {
                          std::move(told)(std::move(permit));
                        };
                      });
}

absl::StatusOr<Permit> Semaphore::TryAcquire(int64_t permits) {
  return Acquire(permits, {.wait = absl::ZeroDuration()});
}

absl::Status Semaphore::SetCapacity(int64_t capacity) {
  return std::shared_ptr<SemaphoreBody>(body_)->SetCapacity(capacity);
}

absl::StatusOr<LockInfo> Semaphore::Inspect() const {
  return std::shared_ptr<SemaphoreBody>(body_)->Inspect(internal::kWaitersListed);
}

absl::StatusOr<int64_t> Semaphore::capacity() const {
  const absl::StatusOr<LockInfo> info = std::shared_ptr<SemaphoreBody>(body_)->Inspect(0);
  if (!info.ok()) return info.status();
  return info->capacity;
}

absl::StatusOr<int64_t> Semaphore::available() const {
  const absl::StatusOr<LockInfo> info = std::shared_ptr<SemaphoreBody>(body_)->Inspect(0);
  if (!info.ok()) return info.status();
  return std::max<int64_t>(0, info->capacity - info->used);
}

absl::StatusOr<std::vector<LockInfo::Party>> Semaphore::holders() const {
  absl::StatusOr<LockInfo> info = Inspect();
  if (!info.ok()) return info.status();
  return std::move(info->holders);
}

absl::Status Semaphore::ForceRelease() {
  return std::shared_ptr<SemaphoreBody>(body_)->ForceRelease();
}

}  // namespace redlatch
