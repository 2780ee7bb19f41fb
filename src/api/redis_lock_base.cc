#include "redlatch/redis_lock_base.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "redlatch/status.h"
#include "src/api/lock_body.h"
#include "src/api/outcomes.h"
#include "src/base/error_address.h"
#include "src/lock/event_driver.h"
#include "src/lock/kinds.h"
#include "src/lock/users_code.h"

namespace redlatch {

RedisLockBase::LockBody::LockBody(std::shared_ptr<internal::ClientCore> core,
                                  std::vector<std::string> names, LockOptions options,
                                  const internal::LibraryKind* kind)
    : Body(absl::StrJoin(names, ", ")),
      core_(std::move(core)),
      names_(std::move(names)),
      kind_(kind),
      options_(core_->Share(std::move(options))) {}

absl::Status RedisLockBase::LockBody::Refuse(absl::StatusCode code, std::string_view why) const {
  return base::WithAddress(absl::Status(code, "lock \"" + name() + "\"" + std::string(why)));
}

absl::StatusOr<internal::LockType> RedisLockBase::LockBody::TypeOf() const {
  const LockTraits traits = object_->Traits();
  absl::StatusOr<internal::KeyNames> keys;
  if (kind_ != nullptr) {
    keys = internal::KeyNames(kind_->in_keys, object_->ExtraKeys());
  } else {
    keys = internal::UsersKeyNames(traits.kind, object_->ExtraKeys());
    if (!keys.ok()) {
      return Refuse(absl::StatusCode::kInvalidArgument,
                    ": " + std::string(keys.status().message()));
    }
  }
  internal::LockType type{.scripts = object_->Scripts(),
                          .traits = traits,
                          .keys = *std::move(keys),
                          .extra_args = object_->ExtraArgs()};
  if (!several()) return type;
  type.title = name();
  for (size_t i = 1; i < names_.size(); ++i) {
    auto other = internal::KeySet::Make(core_->options().key_prefix, names_[i]);
    if (!other.ok()) return base::WithAddress(other.status());
    type.others.push_back(*std::move(other));
  }
  return type;
}

absl::Status RedisLockBase::LockBody::CheckOptions(const LockTraits& traits) const {
  constexpr int kMostReplicas = 1000;
  const absl::Duration none = absl::ZeroDuration();
  const absl::Duration cache_for = options_->cache_for;
  const ReplicaAcks& acks = options_->acks;
  std::string bad;
  if (acks.replicas < 0 || acks.replicas > kMostReplicas) {
    bad = absl::StrCat("ReplicaAcks::replicas is ", acks.replicas, "; it must be 0 to ",
                       kMostReplicas);
  } else if (acks.timeout < absl::Milliseconds(1)) {
    bad = absl::StrCat("a ReplicaAcks::timeout of ", absl::FormatDuration(acks.timeout),
                       " is not possible; it must be 1ms or more");
  } else if (internal::FreeTurn(*options_) < none || cache_for < none || options_->grace < none ||
             options_->stop_margin < none) {
    bad = "LockOptions::turn, cache_for, grace and stop_margin must not be negative";
  } else if (caches() && cache_for > options_->lease) {
    bad = absl::StrCat("LockOptions::cache_for is ", absl::FormatDuration(cache_for),
                       ", longer than the lease of ", absl::FormatDuration(options_->lease),
                       "; make the lease longer, or cache it for less");
  } else if (caches() && !traits.cacheable) {
    bad = "LockOptions::cache_for is for classes whose LockTraits are `cacheable`";
  } else if (tells() && !traits.cacheable) {
    bad =
        "LockOptions::tell_if_wanted and on_wanted are for classes whose LockTraits are "
        "`cacheable`";
  }
  return bad.empty() ? absl::OkStatus() : absl::InvalidArgumentError(bad);
}

absl::Status RedisLockBase::LockBody::Attach() {
  const base::MutexLock guard(mu_);
  if (handle_ != nullptr) return absl::OkStatus();
  absl::StatusOr<internal::LockType> type = TypeOf();
  if (!type.ok()) return type.status();
  auto handle = internal::LockHandle::Attach(core_, names_.front(), {}, *type);
  if (!handle.ok()) return handle.status();
  if (absl::Status bad = CheckOptions(type->traits); !bad.ok()) return (*handle)->About(bad);
  if (const LockScripts scripts = object_->SharedScripts(); !scripts.acquire.body.empty()) {
    internal::LockType shared{.scripts = scripts,
                              .traits = type->traits,
                              .use = internal::GrantUse::kShared,
                              .keys = type->keys};
    readers_ = core_->readers().Of(name(), [&] {
      return std::make_shared<internal::ReaderGroups>(core_, name(), std::move(shared));
    });
  }
  locks_again_ = caches() || type->traits.reentrant;
  if (type->traits.reentrant || type->traits.owners) {
    owners_type_ = std::make_unique<const internal::LockType>(*std::move(type));
  }
  // Nothing fails from here on: what is counted once is taken off once.
  if (readers_ != nullptr) readers_->AddObject();
  handle_ = *std::move(handle);
  handle_->AddObject();
  attached_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

void RedisLockBase::LockBody::Close() {
  if (handle_ == nullptr || core_->in_forked_child()) return;
  gone_ = true;
  handle_->RemoveObject(this);
  if (readers_ != nullptr) readers_->RemoveObject();
}

auto RedisLockBase::LockBody::HandleFor(bool reads, const Caller& caller)
    -> absl::StatusOr<std::shared_ptr<internal::LockHandle>> {
  if (absl::Status bad = EnsureAttached(); !bad.ok()) return bad;
  if (reads && readers_ == nullptr) {
    return Refuse(absl::StatusCode::kFailedPrecondition, " has no shared side");
  }
  if (caller.owner.is_calling_thread()) return handle_;
  if (reads) {
    return Refuse(absl::StatusCode::kInvalidArgument,
                  ": an Owner is for writers; use AcquireRead()");
  }
  if (owners_type_ == nullptr) {
    return Refuse(absl::StatusCode::kInvalidArgument,
                  ": an Owner is for reentrant locks; use Acquire()");
  }
  return internal::LockHandle::Attach(core_, name(), "user:" + caller.owner.name(), *owners_type_);
}

auto RedisLockBase::LockBody::HandleOfThisThread(bool reads)
    -> std::shared_ptr<internal::LockHandle> {
  if (!EnsureAttached().ok()) return nullptr;
  if (!reads) return handle_;
  return readers_ == nullptr ? nullptr : readers_->OfThisThread();
}

absl::Status RedisLockBase::LockBody::RefuseUpgrade() const {
  if (core_->in_forked_child() || handle_->OfThisThread().depth > 0) return absl::OkStatus();
  const auto group = readers_->OfThisThread();
  if (group == nullptr || group->OfThisThread().depth == 0) return absl::OkStatus();
  return Refuse(absl::StatusCode::kFailedPrecondition,
                ": this thread holds it for reading, and would wait for itself; release the read "
                "lock before you write");
}

internal::AcquireCall RedisLockBase::LockBody::CallOf(internal::Face face, const Caller& caller,
                                                      const AcquireOptions& options) const {
  internal::AcquireCall call = redlatch::CallOf(options, options_, this, gone_);
  call.face = face;
  call.terms.acks = {.replicas = static_cast<int16_t>(options_->acks.replicas),
                     .fsync = options_->acks.fsync};
  call.terms.cacheable = caches() && !call.terms.manual && !call.terms.acks.any() &&
                         call.terms.at_least.get() == absl::ZeroDuration() &&
                         caller.owner.is_calling_thread();
  call.terms.told = tells();
  if (!caller.args.empty()) {
    call.terms.args = std::make_shared<const std::vector<std::string>>(caller.args);
  }
  return call;
}

namespace {

// A group of readers, and the ReaderGroups that it keeps, so that a thread with a lease may reenter
// through another lock object.
using Kept =
    std::pair<std::shared_ptr<internal::ReaderGroups>, std::shared_ptr<internal::LockHandle>>;

std::shared_ptr<internal::LockHandle> GroupOf(std::shared_ptr<Kept> kept) {
  internal::LockHandle* const group = kept->second.get();
  return {std::move(kept), group};
}

absl::StatusOr<std::shared_ptr<internal::LockHandle>> NextGroup(
    std::shared_ptr<internal::ReaderGroups> readers, const internal::Entry* left) {
  auto group = readers->NextGroup(left);
  if (!group.ok()) return group;
  return GroupOf(std::make_shared<Kept>(std::move(readers), *std::move(group)));
}

}  // namespace

absl::StatusOr<internal::OwnedHold> RedisLockBase::LockBody::Take(internal::Face face, bool reads,
                                                                  const Caller& caller,
                                                                  const AcquireOptions& options) {
  auto handle = HandleFor(reads, caller);
  if (!handle.ok()) return handle.status();
  internal::AcquireCall call = CallOf(face, caller, options);
  if (reads) return Read(std::move(call));
  if (readers_ != nullptr) {
    if (absl::Status refused = RefuseUpgrade(); !refused.ok()) return refused;
    readers_->GiveBack(call);
  }
  auto held = (*handle)->Acquire(call);
  if (!held.ok()) return held.status();
  return internal::OwnedHold{*std::move(handle), *std::move(held)};
}

absl::StatusOr<internal::OwnedHold> RedisLockBase::LockBody::Read(
    internal::AcquireCall call) const {
  if (const auto writes = handle_->Pin(); writes.depth > 0) {
    call.write_token = writes.token;
    call.write_grant = writes.grant;
    call.terms.told = false;  // to the server, the write beside it looks like a waiting one
  } else {
    handle_->GiveBackCached();  // a cached write grant would keep readers out
  }
  // Made before the grant is there: if memory is lacking, nothing must be given back.
  auto kept = call.face == internal::Face::kStatus ? std::make_shared<Kept>() : nullptr;
  auto entered = readers_->Acquire(std::move(call));
  if (entered.ok() && kept != nullptr) {
    *kept = {readers_, std::move(entered->handle)};
    entered->handle = GroupOf(std::move(kept));
  }
  return entered;
}

absl::Status RedisLockBase::LockBody::Lock(bool reads, const AcquireOptions& options,
                                           bool& deadlock) {
  // Takes again what this thread has, or what the client caches, without blocking.
  if (attached() && locks_again_ &&
      (reads ? caches() && readers_ != nullptr && readers_->LockAgain(options_)
             : handle_->LockAgain(options_))) {
    return absl::OkStatus();
  }
  const auto self = shared_from_this();
  absl::Status locked = Take(internal::Face::kStd, reads, {}, options).status();
  deadlock = !reads && absl::IsFailedPrecondition(locked) &&
             (OfThisThread(reads).depth > 0 ||
              (attached() && readers_ != nullptr && !RefuseUpgrade().ok()));
  return locked;
}

void RedisLockBase::LockBody::Unlock(bool reads) noexcept {
  const bool has_handle = EnsureAttached().ok();
  if (!reads && has_handle) return handle_->Unlock();
  if (core_->in_forked_child()) return;
  if (reads && has_handle && readers_ != nullptr) {
    if (caches() && readers_->LeaveCachedNow()) return;
    if (const auto group = readers_->OfThisThread()) return group->Unlock();
  }
  const std::string_view what =
      reads ? "unlock_shared() by a thread that does not hold it; nothing was released"
            : "unlock() by a thread that does not hold it; nothing was released";
  if (has_handle) return handle_->Misuse(what);
  std::string text(what);
  base::AddAddress(text);
  core_->Tell([&](Observer& observer) { observer.OnMisuse(name(), text); });
}

absl::StatusOr<Lease> RedisLockBase::LockBody::Acquire(bool reads, const Caller& caller,
                                                       const AcquireOptions& options) {
  const auto self = shared_from_this();
  return LeaseOf(Take(internal::Face::kStatus, reads, caller, options));
}

void RedisLockBase::LockBody::AcquireAsync(bool reads, const Caller& caller,
                                           const AcquireOptions& options, AcquireCallback callback,
                                           Whose whose) {
  internal::LockHandle::Finish finish =
      FinishOf([](auto held) { return LeaseOf(std::move(held)); }, std::move(callback));
  auto handle = HandleFor(reads, caller);
  if (handle.ok() && reads) handle = NextGroup(readers_, nullptr);
  if (!handle.ok()) {
    return core_->event_driver().Complete(std::move(finish)(handle.status()), whose);
  }
  internal::LockHandle::Elsewhere elsewhere;
  if (reads) {
    elsewhere =
        [known = std::weak_ptr<internal::ReaderGroups>(readers_)](
            const internal::Entry& left) -> absl::StatusOr<std::shared_ptr<internal::LockHandle>> {
      std::shared_ptr<internal::ReaderGroups> readers = known.lock();
      if (readers == nullptr) return absl::CancelledError("its lock is gone");
      return NextGroup(std::move(readers), &left);
    };
  }
  internal::AcquireCall call = CallOf(internal::Face::kStatus, caller, options);
  if (reads) handle_->GiveBackCached();
  if (!reads && readers_ != nullptr) readers_->GiveBack(call);
  (*handle)->AcquireAsync(std::move(call), std::move(finish), std::move(elsewhere), whose);
}

Hold RedisLockBase::LockBody::Current(bool reads) {
  const auto handle = HandleOfThisThread(reads);
  return handle == nullptr ? Hold() : HoldOf(handle->Current());
}

absl::StatusOr<LockInfo> RedisLockBase::LockBody::Inspect() {
  const auto handle = HandleFor(/*reads=*/false, {});
  return handle.ok() ? (*handle)->Inspect() : handle.status();
}

absl::Status RedisLockBase::LockBody::ForceRelease() {
  const auto handle = HandleFor(/*reads=*/false, {});
  return handle.ok() ? (*handle)->ForceRelease() : handle.status();
}

// ---- The lock object. Each call keeps the body, in case the object is destroyed meanwhile.

RedisLockBase::RedisLockBase(std::shared_ptr<Body> body) : body_(std::move(body)) {
  body_->SetObject(*this);
}

RedisLockBase::RedisLockBase(const Client& client, std::string_view name, LockOptions options,
                             const internal::LibraryKind* kind)
    : RedisLockBase(std::make_shared<LockBody>(client.core(), std::vector{std::string(name)},
                                               std::move(options), kind)) {}

RedisLockBase::~RedisLockBase() {
  body_->Close();
  body_.reset();
}

const std::string& RedisLockBase::name() const { return body_->name(); }

void RedisLockBase::lock() {
  bool deadlock = false;
  const absl::Status locked = body_->Lock(/*reads=*/false, {}, deadlock);
  if (deadlock) ThrowDeadlock(locked);
  ThrowIfFailed(locked);
}

std::optional<bool> RedisLockBase::TryLockFor(absl::Duration wait) {
  bool deadlock = false;
  const absl::Status locked = body_->Lock(/*reads=*/false, {.wait = wait}, deadlock);
  if (deadlock) return std::nullopt;
  return ThrowUnlessBusy(locked);
}

void RedisLockBase::unlock() noexcept { body_->Unlock(/*reads=*/false); }

absl::StatusOr<Lease> RedisLockBase::AcquireBy(const Caller& caller,
                                               const AcquireOptions& options) {
  return body_->Acquire(/*reads=*/false, caller, options);
}

void RedisLockBase::AcquireAsyncBy(const Caller& caller, const AcquireOptions& options,
                                   AcquireCallback callback) {
  body_->AcquireAsync(/*reads=*/false, caller, options, std::move(callback), Body::Whose::kUsers);
}

Hold RedisLockBase::current() const { return body_->Current(/*reads=*/false); }
int RedisLockBase::hold_count() const { return body_->HoldCount(/*reads=*/false); }

absl::StatusOr<LockInfo> RedisLockBase::Inspect() const { return body_->Inspect(); }
absl::Status RedisLockBase::ForceRelease() { return body_->ForceRelease(); }

void RedisLockBase::LockShared() {
  bool deadlock = false;
  ThrowIfFailed(body_->Lock(/*reads=*/true, {}, deadlock));
}

bool RedisLockBase::TryLockSharedFor(absl::Duration wait) {
  bool deadlock = false;
  return ThrowUnlessBusy(body_->Lock(/*reads=*/true, {.wait = wait}, deadlock));
}

void RedisLockBase::UnlockShared() noexcept { body_->Unlock(/*reads=*/true); }

absl::StatusOr<Lease> RedisLockBase::AcquireShared(const AcquireOptions& options) {
  return body_->Acquire(/*reads=*/true, {}, options);
}

void RedisLockBase::AcquireSharedAsync(const AcquireOptions& options, AcquireCallback callback) {
  body_->AcquireAsync(/*reads=*/true, {}, options, std::move(callback), Body::Whose::kUsers);
}

Hold RedisLockBase::CurrentShared() const { return body_->Current(/*reads=*/true); }
int RedisLockBase::SharedHoldCount() const { return body_->HoldCount(/*reads=*/true); }

}  // namespace redlatch
