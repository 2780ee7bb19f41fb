#include "redlatch/semaphore.h"

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "redlatch/status.h"
#include "src/api/outcomes.h"
#include "src/base/atomic.h"
#include "src/base/error_address.h"
#include "src/base/mutex.h"
#include "src/base/utf8.h"
#include "src/lock/client_core.h"
#include "src/lock/kinds.h"
#include "src/lock/permit_pool.h"
#include "src/lock/state/timing.h"
#include "src/lock/users_code.h"

namespace redlatch {
namespace {

namespace kinds = internal::kinds;

constexpr int64_t kMostPermits = 1'000'000'000;
constexpr int64_t kMostWithIds = 1000;  // of a Redisson semaphore, whose permits have ids

internal::LockType SemaphoreType() {
  return {.scripts = lua::kSemaphoreScripts,
          .traits = {.kind = kinds::kSemaphore},
          .use = internal::GrantUse::kPermit,
          .noun = "semaphore",
          .busy = "too few of its permits are free, or others came first",
          .keys = internal::KeyNames(kinds::kSemaphore, {std::string(kinds::kPermitsSuffix)}),
          .forced_key = kinds::kForcedSuffix};
}

absl::StatusOr<Permit> PermitOf(absl::StatusOr<internal::OwnedHold> owned, int64_t count) {
  absl::StatusOr<Lease> lease = LeaseOf(std::move(owned));
  if (!lease.ok()) return lease.status();
  return Permit(*std::move(lease), count);
}

}  // namespace

// What a semaphore object does.
class Semaphore::Body {
 public:
  Body(std::shared_ptr<internal::ClientCore> core, std::string_view name, int64_t capacity,
       SemaphoreOptions options, internal::LockType (*type)() = SemaphoreType)
      : core_(std::move(core)),
        name_(name),
        capacity_(capacity),
        type_(type),
        options_(std::make_shared<const LockOptions>(LockOptions{
            .lease = options.lease, .turn = options.turn, .on_lost = std::move(options.on_lost)})) {
  }

  const std::string& name() const { return name_; }

  // The object is being destroyed: calls that wait in it end.
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

  // Returns the pool for a request for that many permits, or for a script.
  absl::StatusOr<std::shared_ptr<internal::PermitPool>> Pool(int64_t count = 1) {
    if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
    if (absl::Status bad = own() ? Check(capacity_, "a capacity") : absl::OkStatus(); !bad.ok()) {
      return bad;
    }
    if (absl::Status bad = Check(count, "a request"); !bad.ok()) return bad;
    if (internal::FreeTurn(*options_) < absl::ZeroDuration()) {
      return base::WithAddress(absl::InvalidArgumentError(absl::StrCat(
          "semaphore ", base::Quoted(name_), ": SemaphoreOptions::turn must not be negative")));
    }
    const base::MutexLock lock(mu_);
    if (permits_ == nullptr) {
      internal::LockType type = type_();
      permits_ = core_->permits().Of(absl::StrCat(std::string(type.traits.kind), ":", name_), [&] {
        return std::make_shared<internal::PermitPool>(core_, name_, std::move(type));
      });
      permits_->AddObject();
    }
    return permits_;
  }

  // For scripts that are no part of a hold.
  absl::StatusOr<std::shared_ptr<internal::LockHandle>> Borrow() {
    const auto pool = Pool();
    return pool.ok() ? (*pool)->Borrow() : pool.status();
  }

  internal::AcquireCall CallOf(int64_t count, const AcquireOptions& options) const {
    internal::AcquireCall call = redlatch::CallOf(options, options_, this, gone_);
    call.terms.permits = static_cast<uint32_t>(count);
    call.terms.capacity = static_cast<uint32_t>(capacity_);
    return call;
  }

  const std::shared_ptr<internal::ClientCore>& core() const { return core_; }
  int64_t capacity() const { return capacity_; }
  bool own() const { return type_ == SemaphoreType; }

  absl::Status Check(int64_t count, std::string_view what) const {
    const int64_t most = own() ? kMostPermits : kMostWithIds;
    if (1 <= count && count <= most) return absl::OkStatus();
    return base::WithAddress(absl::InvalidArgumentError(
        absl::StrCat("semaphore ", base::Quoted(name_), ": ", std::string(what), " of ", count,
                     " permits is not possible; it must be 1 to ", most)));
  }

 private:
  const std::shared_ptr<internal::ClientCore> core_;
  const std::string name_;
  const int64_t capacity_;
  internal::LockType (*const type_)();
  const std::shared_ptr<const LockOptions> options_;
  base::Atomic<bool> gone_{false};
  base::Mutex mu_;
  std::shared_ptr<internal::PermitPool> permits_ ABSL_GUARDED_BY(mu_);  // null before the first use
};

Semaphore::Semaphore(const Client& client, std::string_view name, int64_t capacity,
                     SemaphoreOptions options)
    : body_(std::make_shared<Body>(client.core(), name, capacity, std::move(options))) {}

Semaphore::Semaphore(const Client& client, std::string_view name, SemaphoreOptions options,
                     internal::LockType (*type)())
    : body_(std::make_shared<Body>(client.core(), name, 0, std::move(options), type)) {}

Semaphore::~Semaphore() { body_->Close(); }

absl::StatusOr<std::shared_ptr<internal::LockHandle>> Semaphore::Borrow() const {
  return body_->Borrow();
}

const std::string& Semaphore::name() const { return body_->name(); }

// Each call that waits keeps the body, since the object may be destroyed meanwhile.

bool Semaphore::TryAcquireFor(absl::Duration wait) {
  const std::shared_ptr<Body> body = body_;
  const auto pool = body->Pool();
  ThrowIfFailed(pool.status());
  auto held = (*pool)->Acquire(body->CallOf(1, {.wait = wait}));
  if (!ThrowUnlessBusy(held.status())) return false;
  ThrowIfFailed((*pool)->Keep(*std::move(held)));
  return true;
}

void Semaphore::release(std::ptrdiff_t permits) {
  if (permits == 0) return;
  const auto pool = body_->Pool();
  ThrowIfFailed(pool.status());
  if (permits < 0) Throw(body_->Check(permits, "a release"));
  ThrowIfFailed((*pool)->Release(static_cast<size_t>(permits)));
}

absl::StatusOr<Permit> Semaphore::Acquire(int64_t permits, const AcquireOptions& options) {
  const std::shared_ptr<Body> body = body_;
  const auto pool = body->Pool(permits);
  if (!pool.ok()) return pool.status();
  return PermitOf((*pool)->Acquire(body->CallOf(permits, options)), permits);
}

void Semaphore::AcquireAsync(int64_t permits, const AcquireOptions& options,
                             AcquireCallback callback) {
  auto finish = FinishOf(
      [permits](absl::StatusOr<internal::OwnedHold> taken) {
        return PermitOf(std::move(taken), permits);
      },
      std::move(callback));
  const auto pool = body_->Pool(permits);
  const auto handle = pool.ok() ? (*pool)->Fresh() : pool.status();
  if (!handle.ok()) {
    return body_->core()->event_driver().Complete(std::move(finish)(handle.status()));
  }
  (*handle)->AcquireAsync(body_->CallOf(permits, options), std::move(finish));
}

absl::Status Semaphore::SetCapacity(int64_t capacity) {
  if (absl::Status bad = body_->Check(capacity, "a capacity"); !bad.ok()) return bad;
  const auto handle = body_->Borrow();
  if (!handle.ok()) return handle.status();
  return (*handle)->RunAll(lua::kSemaphoreSetCapacity, absl::StrCat(capacity));
}

absl::StatusOr<LockInfo> Semaphore::Inspect() const {
  const int64_t capacity = body_->capacity();
  const auto handle = body_->Borrow();
  if (!handle.ok()) return handle.status();
  absl::StatusOr<LockInfo> info = (*handle)->Inspect();
  if (info.ok() && info->capacity == 0) info->capacity = capacity;  // it is not stored yet
  return info;
}

absl::Status Semaphore::ForceRelease() {
  const auto handle = body_->Borrow();
  return handle.ok() ? (*handle)->ForceRelease() : handle.status();
}

}  // namespace redlatch
