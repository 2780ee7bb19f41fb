#include "redlatch/redis_lock_base.h"

#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "redlatch/status.h"
#include "src/api/lock_body.h"
#include "src/api/outcomes.h"
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
      options_(std::make_shared<const LockOptions>(std::move(options))) {}

absl::Status RedisLockBase::LockBody::Refuse(absl::StatusCode code, std::string_view why) const {
  return absl::Status(code, "lock \"" + name() + "\"" + std::string(why));
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
    if (!other.ok()) return other.status();
    type.others.push_back(*std::move(other));
  }
  return type;
}

absl::Status RedisLockBase::LockBody::Attach() {
  if (attached()) return absl::OkStatus();
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const base::MutexLock guard(mu_);
  if (handle_ != nullptr) return absl::OkStatus();
  const absl::StatusOr<internal::LockType> type = TypeOf();
  if (!type.ok()) return type.status();
  auto handle = internal::LockHandle::Attach(core_, names_.front(), {}, *type);
  if (!handle.ok()) return handle.status();
  if (const LockScripts scripts = object_->SharedScripts(); !scripts.acquire.body.empty()) {
    internal::LockType shared{.scripts = scripts,
                              .traits = type->traits,
                              .use = internal::GrantUse::kShared,
                              .keys = type->keys};
    readers_ = core_->readers().Of(name(), [&] {
      return std::make_shared<internal::ReaderGroups>(core_, name(), std::move(shared));
    });
    readers_->AddObject();
  }
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

absl::StatusOr<std::shared_ptr<internal::LockHandle>> RedisLockBase::LockBody::HandleFor(
    const Owner& owner) const {
  if (owner.is_calling_thread()) return handle_;
  const LockTraits& traits = handle_->entry().type->traits;
  if (!traits.reentrant && !traits.owners) {
    return Refuse(absl::StatusCode::kInvalidArgument,
                  ": an Owner is for reentrant locks; use Acquire()");
  }
  const absl::StatusOr<internal::LockType> type = TypeOf();
  if (!type.ok()) return type.status();
  return internal::LockHandle::Attach(core_, name(), "user:" + owner.name(), *type);
}

auto RedisLockBase::LockBody::AccessFor(bool reads, const Caller& caller)
    -> absl::StatusOr<Access> {
  if (absl::Status attached = Attach(); !attached.ok()) return attached;
  if (reads && readers_ == nullptr) {
    return Refuse(absl::StatusCode::kFailedPrecondition, " has no shared side");
  }
  if (reads && !caller.owner.is_calling_thread()) {
    return Refuse(absl::StatusCode::kInvalidArgument,
                  ": an Owner is for writers; use AcquireRead()");
  }
  auto handle = HandleFor(caller.owner);
  if (!handle.ok()) return handle.status();
  return Access{shared_from_this(), *std::move(handle), reads, caller};
}

internal::HoldRef RedisLockBase::LockBody::Access::Ask(
    internal::HoldRef (internal::LockHandle::*question)() const) const {
  if (!reads) return ((*handle).*question)();
  if (body->readers_ == nullptr || body->core_->in_forked_child()) return {};
  const auto group = body->readers_->OfThisThread();
  return group == nullptr ? internal::HoldRef() : ((*group).*question)();
}

void RedisLockBase::LockBody::Access::Unlock() const {
  if (OfThisThread().hold == 0) return;  // it was released with the last lock object
  if (!reads) return handle->Unlock();
  if (const auto group = body->readers_->OfThisThread()) group->Unlock();
}

absl::StatusOr<internal::OwnedHold> RedisLockBase::LockBody::Access::Acquire(
    internal::Face face, const AcquireOptions& options) const {
  if (reads) return body->Read(face, options);
  if (absl::Status refused = body->RefuseUpgrade(); !refused.ok()) return refused;
  internal::AcquireCall call = body->CallOf(face, caller, options);
  if (body->readers_ != nullptr) body->readers_->GiveBack(call);
  auto held = handle->Acquire(call);
  if (!held.ok()) return held.status();
  return internal::OwnedHold{handle, *std::move(held)};
}

absl::Status RedisLockBase::LockBody::RefuseUpgrade() const {
  if (readers_ == nullptr || core_->in_forked_child() || handle_->OfThisThread().depth > 0 ||
      !readers_->ThisThreadReads()) {
    return absl::OkStatus();
  }
  return Refuse(absl::StatusCode::kFailedPrecondition,
                ": this thread holds it for reading, and would wait for itself; release the read "
                "lock before you write");
}

internal::AcquireCall RedisLockBase::LockBody::CallOf(internal::Face face, const Caller& caller,
                                                      const AcquireOptions& options) const {
  internal::Terms terms{.lease = options.lease.value_or(options_->lease),
                        .manual = options.lease.has_value(),
                        .whole = options.whole_lease,
                        .acks = {.replicas = static_cast<int16_t>(options_->acks.replicas),
                                 .fsync = options_->acks.fsync}};
  terms.cacheable =
      caches() && !terms.manual && !terms.acks.any() && caller.owner.is_calling_thread();
  if (!caller.args.empty()) {
    terms.args = std::make_shared<const std::vector<std::string>>(caller.args);
  }
  return {.face = face,
          .terms = std::move(terms),
          .wait = options.wait,
          .stop = options.stop,
          .options = options_,
          .object = this,
          .gone = &gone_};
}

namespace {

// A group of readers and its ReaderGroups, so that a thread with a lease may reenter through
// another lock object.
struct GroupAndReaders {
  std::shared_ptr<internal::ReaderGroups> readers;
  std::shared_ptr<internal::LockHandle> group;
};

// The group, which keeps both.
std::shared_ptr<internal::LockHandle> WithReaders(std::shared_ptr<GroupAndReaders> both,
                                                  std::shared_ptr<internal::ReaderGroups> readers,
                                                  std::shared_ptr<internal::LockHandle> group) {
  internal::LockHandle* const handle = group.get();
  *both = {.readers = std::move(readers), .group = std::move(group)};
  return std::shared_ptr<internal::LockHandle>(std::move(both), handle);
}

absl::StatusOr<std::shared_ptr<internal::LockHandle>> NextGroup(
    std::shared_ptr<internal::ReaderGroups> readers, const internal::Entry* left) {
  auto group = readers->NextGroup(left);
  if (!group.ok()) return group;
  return WithReaders(std::make_shared<GroupAndReaders>(), std::move(readers), *std::move(group));
}

}  // namespace

absl::StatusOr<internal::OwnedHold> RedisLockBase::LockBody::Read(
    internal::Face face, const AcquireOptions& options) const {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  internal::AcquireCall call = CallOf(face, {}, options);
  if (const auto writes = handle_->Pin(); writes.depth > 0) {
    call.write_token = writes.token;
    call.write_grant = writes.grant;
  }
  // Made before the grant is there: if memory is lacking, nothing must be given back.
  auto both = face == internal::Face::kStatus ? std::make_shared<GroupAndReaders>() : nullptr;
  auto entered = readers_->Acquire(std::move(call));
  if (entered.ok() && both != nullptr) {
    entered->handle = WithReaders(std::move(both), readers_, std::move(entered->handle));
  }
  return entered;
}

bool RedisLockBase::LockBody::LockAgain(bool reads) const {
  if (!attached()) return false;
  if (!reads) return handle_->LockAgain(options_);
  return caches() && readers_ != nullptr && readers_->LockAgain(options_);
}

absl::Status RedisLockBase::LockBody::Lock(bool reads, absl::Duration wait, bool& deadlock) {
  if (LockAgain(reads)) return absl::OkStatus();
  const absl::StatusOr<Access> access = AccessFor(reads, {});
  if (!access.ok()) return access.status();
  absl::Status locked = access->Acquire(internal::Face::kStd, {.wait = wait}).status();
  deadlock = !reads && absl::IsFailedPrecondition(locked) &&
             (access->OfThisThread().depth > 0 || !RefuseUpgrade().ok());
  return locked;
}

void RedisLockBase::LockBody::Unlock(bool reads) noexcept {
  const bool attached = Attach().ok();
  if (!reads && attached) return handle_->Unlock();
  if (core_->in_forked_child()) return;
  if (reads && attached && readers_ != nullptr) {
    if (caches() && readers_->LeaveCachedNow()) return;
    if (const auto group = readers_->OfThisThread()) return group->Unlock();
  }
  const std::string_view what =
      reads ? "unlock_shared() by a thread that does not hold it; nothing was released"
            : "unlock() by a thread that does not hold it; nothing was released";
  if (attached) return handle_->Misuse(what);
  core_->Tell([&](Observer& observer) { observer.OnMisuse(name(), what); });
}

absl::StatusOr<Lease> RedisLockBase::LockBody::Acquire(bool reads, const Caller& caller,
                                                       const AcquireOptions& options) {
  const absl::StatusOr<Access> access = AccessFor(reads, caller);
  if (!access.ok()) return access.status();
  return LeaseOf(access->Acquire(internal::Face::kStatus, options));
}

void RedisLockBase::LockBody::AcquireAsync(bool reads, const Caller& caller,
                                           const AcquireOptions& options,
                                           AcquireCallback callback) {
  AcquireAsync(AccessFor(reads, caller), options, internal::EventDriver::Whose::kUsers,
               std::move(callback));
}

void RedisLockBase::LockBody::AcquireAsync(const absl::StatusOr<Access>& access,
                                           const AcquireOptions& options,
                                           internal::EventDriver::Whose whose,
                                           AcquireCallback callback) {
  // It is a lease from here on, so that it is released if the callback is dropped.
  internal::LockHandle::Finish finish = [told = internal::NotNull(std::move(callback))](
                                            absl::StatusOr<internal::OwnedHold> held) mutable {
    auto lease = LeaseOf(std::move(held));
    return [told = std::move(told), lease = std::move(lease)]() mutable {
      std::move(told)(std::move(lease));
    };
  };
  const auto refuse = [&](const absl::Status& why) {
    core_->event_driver().Complete(std::move(finish)(why), whose);
  };
  if (const absl::Status refused = core_->Refusal(); !refused.ok()) return refuse(refused);
  if (!access.ok()) return refuse(access.status());
  internal::AcquireCall call = CallOf(internal::Face::kStatus, access->caller, options);
  if (!access->reads) {
    return access->handle->AcquireAsync(std::move(call), std::move(finish), nullptr, whose);
  }
  const auto group = NextGroup(readers_, nullptr);
  if (!group.ok()) return refuse(group.status());
  auto elsewhere =
      [known = std::weak_ptr<internal::ReaderGroups>(readers_)](
          const internal::Entry& left) -> absl::StatusOr<std::shared_ptr<internal::LockHandle>> {
    std::shared_ptr<internal::ReaderGroups> readers = known.lock();
    if (readers == nullptr) return absl::CancelledError("its lock is gone");
    return NextGroup(std::move(readers), &left);
  };
  (*group)->AcquireAsync(std::move(call), std::move(finish), std::move(elsewhere), whose);
}

Hold RedisLockBase::LockBody::Current(bool reads) {
  const absl::StatusOr<Access> access = AccessFor(reads, {});
  return access.ok() ? HoldOf(access->Current()) : Hold();
}

int RedisLockBase::LockBody::HoldCount(bool reads) {
  const absl::StatusOr<Access> access = AccessFor(reads, {});
  return access.ok() ? static_cast<int>(access->OfThisThread().depth) : 0;
}

absl::StatusOr<LockInfo> RedisLockBase::LockBody::Inspect() {
  if (absl::Status attached = Attach(); !attached.ok()) return attached;
  return std::shared_ptr<internal::LockHandle>(handle_)->Inspect();
}

absl::Status RedisLockBase::LockBody::ForceRelease() {
  if (absl::Status attached = Attach(); !attached.ok()) return attached;
  return std::shared_ptr<internal::LockHandle>(handle_)->ForceRelease();
}

// ---- The lock object. Each call keeps the body, in case the object is destroyed meanwhile.

RedisLockBase::RedisLockBase(std::shared_ptr<Body> body) : body_(std::move(body)) {
  body_->SetObject(*this);
}

RedisLockBase::RedisLockBase(const Client& client, std::string_view name, LockOptions options)
    : RedisLockBase(std::make_shared<LockBody>(client.core(), std::vector{std::string(name)},
                                               std::move(options), nullptr)) {}

RedisLockBase::RedisLockBase(const Client& client, std::string_view name, LockOptions options,
                             const internal::LibraryKind& kind)
    : RedisLockBase(std::make_shared<LockBody>(client.core(), std::vector{std::string(name)},
                                               std::move(options), &kind)) {}

RedisLockBase::~RedisLockBase() {
  body_->Close();
  body_.reset();
}

const std::string& RedisLockBase::name() const { return body_->name(); }

void RedisLockBase::lock() {
  bool deadlock = false;
  const absl::Status locked = body_->Lock(/*reads=*/false, absl::InfiniteDuration(), deadlock);
  if (locked.ok()) return;
  if (deadlock) ThrowDeadlock(locked);
  Throw(locked);
}

std::optional<bool> RedisLockBase::TryLockFor(absl::Duration wait) {
  bool deadlock = false;
  const absl::Status locked = body_->Lock(/*reads=*/false, wait, deadlock);
  if (locked.ok()) return true;
  if (IsBusy(locked)) return false;
  if (deadlock) return std::nullopt;
  Throw(locked);
}

void RedisLockBase::unlock() noexcept { body_->Unlock(/*reads=*/false); }

absl::StatusOr<Lease> RedisLockBase::AcquireBy(const Caller& caller,
                                               const AcquireOptions& options) {
  return body_->Acquire(/*reads=*/false, caller, options);
}

void RedisLockBase::AcquireAsyncBy(const Caller& caller, const AcquireOptions& options,
                                   AcquireCallback callback) {
  body_->AcquireAsync(/*reads=*/false, caller, options, std::move(callback));
}

Hold RedisLockBase::current() const { return body_->Current(/*reads=*/false); }
int RedisLockBase::hold_count() const { return body_->HoldCount(/*reads=*/false); }

absl::StatusOr<LockInfo> RedisLockBase::Inspect() const { return body_->Inspect(); }
absl::Status RedisLockBase::ForceRelease() { return body_->ForceRelease(); }

void RedisLockBase::LockShared() {
  bool deadlock = false;
  const absl::Status locked = body_->Lock(/*reads=*/true, absl::InfiniteDuration(), deadlock);
  if (!locked.ok()) Throw(locked);
}

bool RedisLockBase::TryLockSharedFor(absl::Duration wait) {
  bool deadlock = false;
  const absl::Status locked = body_->Lock(/*reads=*/true, wait, deadlock);
  if (!locked.ok() && !IsBusy(locked)) Throw(locked);
  return locked.ok();
}

void RedisLockBase::UnlockShared() noexcept { body_->Unlock(/*reads=*/true); }

absl::StatusOr<Lease> RedisLockBase::AcquireShared(const AcquireOptions& options) {
  return body_->Acquire(/*reads=*/true, {}, options);
}

void RedisLockBase::AcquireSharedAsync(const AcquireOptions& options, AcquireCallback callback) {
  body_->AcquireAsync(/*reads=*/true, {}, options, std::move(callback));
}

Hold RedisLockBase::CurrentShared() const { return body_->Current(/*reads=*/true); }
int RedisLockBase::SharedHoldCount() const { return body_->HoldCount(/*reads=*/true); }

}  // namespace redlatch
