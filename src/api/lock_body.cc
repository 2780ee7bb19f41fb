#include "src/api/lock_body.h"

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "src/lock/kinds.h"

namespace redlatch {

RedisLockBase::LockBody::LockBody(std::shared_ptr<internal::ClientCore> core,
                                  std::vector<std::string> names,
                                  std::shared_ptr<const LockOptions> options)
    : core_(std::move(core)),
      name_(absl::StrJoin(names, ", ")),
      names_(names.size() > 1 ? std::make_unique<const std::vector<std::string>>(std::move(names))
                              : nullptr),
      key_kind_(internal::kinds::kSimple.data()),
      options_(std::move(options)) {}

void RedisLockBase::LockBody::Close() {
  if (access_ == nullptr || core_->in_forked_child()) return;
  access_->gone = true;
  access_->handle->RemoveObject(this);
  if (access_->readers != nullptr) access_->readers->RemoveObject();
}

auto RedisLockBase::LockBody::Attach(const RedisLockBase& lock)
    -> absl::StatusOr<std::shared_ptr<Access>> {
  if (attached_.load(std::memory_order_acquire)) return access_;
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const base::MutexLock guard(mu_);
  if (access_ == nullptr) {
    const absl::StatusOr<internal::LockType> type = PlanOf(lock);
    if (!type.ok()) return type.status();
    auto made = internal::LockHandle::Attach(core_, several() ? names_->front() : name_, {}, *type);
    if (!made.ok()) return made.status();
    auto access = std::make_shared<Access>();
    if (const LockScripts scripts = lock.SharedScripts(); !scripts.acquire.body.empty()) {
      internal::LockType shared{.scripts = scripts,
                                .traits = type->traits,
                                .use = internal::GrantUse::kShared,
                                .keys = type->keys};
      access->readers = core_->readers().Of(name_, [&] {
        return std::make_shared<internal::ReaderGroups>(core_, name_, std::move(shared));
      });
      access->readers->AddObject();
    }
    access->handle = *std::move(made);
    access->handle->AddObject();
    access_ = std::move(access);
    attached_.store(true, std::memory_order_release);
  }
  return access_;
}

absl::StatusOr<std::shared_ptr<internal::LockHandle>> RedisLockBase::LockBody::SessionFor(
    const RedisLockBase& lock, const Access& access, const Owner& owner) const {
  if (owner.is_calling_thread()) return access.handle;
  if (!lock.Traits().reentrant && !lock.Traits().owners) {
    return absl::InvalidArgumentError("lock \"" + name_ +
                                      "\": an Owner is for reentrant locks; use Acquire()");
  }
  const absl::StatusOr<internal::LockType> type = PlanOf(lock);
  if (!type.ok()) return type.status();
  return internal::LockHandle::Attach(core_, name_, "user:" + std::string(owner.name()), *type);
}

absl::Status RedisLockBase::LockBody::RefuseUpgrade(const Access& access) const {
  if (access.readers == nullptr || core_->in_forked_child() ||
      access.handle->OfThisThread().depth > 0 || !access.readers->ThisThreadReads()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("lock \"" + name_ +
                                       "\": this thread holds it for reading, and would wait for "
                                       "itself; release the read lock before you write");
}

auto RedisLockBase::LockBody::SideOf(const RedisLockBase& lock, bool reads, const Caller& caller)
    -> absl::StatusOr<Side> {
  const auto access = Attach(lock);
  if (!access.ok()) return access.status();
  if (reads && !caller.owner.is_calling_thread()) {
    return absl::InvalidArgumentError("lock \"" + name_ +
                                      "\": an Owner is for writers; use Acquire()");
  }
  auto handle = SessionFor(lock, **access, caller.owner);
  if (!handle.ok()) return handle.status();
  return Side{shared_from_this(), *access, *std::move(handle), reads, caller};
}

absl::StatusOr<internal::OwnedHold> RedisLockBase::LockBody::Side::Acquire(
    internal::Face face, const AcquireOptions& options) const {
  if (reads) return body->Read(*access, face, options);
  if (absl::Status refused = body->RefuseUpgrade(*access); !refused.ok()) return refused;
  auto held = handle->Acquire(body->WriteWantOf(*access, face, caller, options));
  if (!held.ok()) return held.status();
  return internal::OwnedHold{handle, *std::move(held)};
}

internal::HoldRef RedisLockBase::LockBody::Side::Ask(
    internal::HoldRef (internal::LockHandle::*question)() const) const {
  if (!reads) return ((*handle).*question)();
  if (access->readers == nullptr || body->core_->in_forked_child()) return {};
  const auto group = access->readers->OfThisThread();
  return group == nullptr ? internal::HoldRef() : ((*group).*question)();
}

void RedisLockBase::LockBody::Side::Unlock() const {
  if (OfThisThread().hold == 0) return;  // it went with the lock
  if (!reads) return handle->Unlock();
  if (const auto group = access->readers->OfThisThread()) group->Unlock();
}

absl::StatusOr<Lease> RedisLockBase::LockBody::LeaseOf(absl::StatusOr<internal::OwnedHold> held) {
  if (!held.ok()) return held.status();
  return Lease(std::move(held->handle), held->held.hold, std::move(held->held.view),
               held->held.token);
}

absl::StatusOr<internal::OwnedHold> RedisLockBase::LockBody::Read(
    const Access& access, internal::Face face, const AcquireOptions& options) const {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (access.readers == nullptr) {
    return absl::FailedPreconditionError("lock \"" + name_ + "\" has no shared side");
  }
  internal::Want want = WantOf(access, face, {}, options);
  if (const auto writes = access.handle->Pin(); writes.depth > 0) {
    want.write_token = writes.token;
    want.write_grant = writes.grant;
  }
  // A thread with a lease may reenter through another object, so the readers must stay the same.
  struct Kept {
    std::shared_ptr<internal::ReaderGroups> readers;
    std::shared_ptr<internal::LockHandle> group;
  };
  auto kept = face == internal::Face::kStatus ? std::make_shared<Kept>() : nullptr;
  auto entered = access.readers->Acquire(std::move(want));
  if (entered.ok() && kept != nullptr) {
    *kept = {access.readers, std::move(entered->handle)};
    internal::LockHandle* const group = kept->group.get();
    entered->handle = std::shared_ptr<internal::LockHandle>(std::move(kept), group);
  }
  return entered;
}

internal::Want RedisLockBase::LockBody::WriteWantOf(const Access& access, internal::Face face,
                                                    const Caller& caller,
                                                    const AcquireOptions& options) const {
  internal::Want want = WantOf(access, face, caller, options);
  if (access.readers != nullptr) access.readers->GiveBack(want);
  return want;
}

internal::Want RedisLockBase::LockBody::WantOf(const Access& access, internal::Face face,
                                               const Caller& caller,
                                               const AcquireOptions& options) const {
  internal::Terms terms{.lease = options.lease.value_or(options_->lease),
                        .manual = options.lease.has_value(),
                        .whole = options.whole_lease,
                        .acks = {.replicas = static_cast<int16_t>(options_->acks.replicas),
                                 .fsync = options_->acks.fsync}};
  terms.cacheable = options_->cache_for > absl::ZeroDuration() && !terms.manual &&
                    !terms.acks.any() && caller.owner.is_calling_thread();
  if (!caller.args.empty()) {
    terms.args = std::make_shared<const std::vector<std::string>>(caller.args);
  }
  return {.face = face,
          .terms = std::move(terms),
          .wait = options.wait,
          .stop = options.stop,
          .options = options_,
          .object = this,
          .gone = &access.gone};
}

absl::StatusOr<internal::LockType> RedisLockBase::LockBody::PlanOf(
    const RedisLockBase& lock) const {
  const LockTraits traits = lock.Traits();
  absl::StatusOr<internal::KeyNames> keys;
  if (key_kind_ == nullptr) {
    keys = internal::UsersKeyNames(traits.kind, lock.ExtraKeys());
    if (!keys.ok()) {
      return absl::InvalidArgumentError("lock \"" + name_ +
                                        "\": " + std::string(keys.status().message()));
    }
  } else {
    keys = internal::KeyNames(key_kind_, lock.ExtraKeys());
  }
  internal::LockType type{.scripts = lock.Scripts(),
                          .traits = traits,
                          .keys = *std::move(keys),
                          .extra_args = lock.ExtraArgs()};
  if (!several()) return type;
  type.title = name_;
  for (size_t i = 1; i < names_->size(); ++i) {
    auto other = internal::KeySet::Make(core_->options().key_prefix, (*names_)[i]);
    if (!other.ok()) return other.status();
    type.others.push_back(*std::move(other));
  }
  return type;
}

}  // namespace redlatch
