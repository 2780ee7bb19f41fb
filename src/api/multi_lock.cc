#include "redlatch/multi_lock.h"

#include <algorithm>
#include <tuple>
#include <typeinfo>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/api/lock_body.h"
#include "src/api/multi_lock_apart.h"
#include "src/api/simple_scripts.h"
#include "src/api/throw.h"
#include "src/lock/kinds.h"
#include "src/lock/users_code.h"

namespace redlatch {
namespace {

constexpr size_t kMostLocks = 64;

absl::Status CheckCount(size_t locks) {
  if (locks == 0) return absl::InvalidArgumentError("a MultiLock must have at least one lock");
  if (locks <= kMostLocks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a MultiLock of ", locks, " locks is too large; ", kMostLocks, " are the most"));
}

std::vector<std::string> EachOnce(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// Whether one script can have the keys of all.
bool InOneSlot(internal::ClientCore& core, const std::vector<std::string>& names) {
  const auto tag = [&](const std::string& name) {
    return core.server_group().slot_tag(core.options().key_prefix + name);
  };
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return tag(name) == tag(names.front()); });
}

}  // namespace

MultiLock::Part::Part(ReentrantReadWriteLock::ReadView* side)
    : lock_(side == nullptr ? nullptr : &side->lock_), reads_(true) {}

struct MultiLock::Made {
  std::shared_ptr<LockBody> body;
  std::shared_ptr<Apart> apart;
};

MultiLock::MultiLock(Made made)
    : RedisLockBase(std::move(made.body)), apart_(std::move(made.apart)) {}

MultiLock::MultiLock(const Client& client, std::vector<std::string> names, MultiLockOptions options)
    : MultiLock(Make(client, EachOnce(std::move(names)), std::move(options))) {}

MultiLock::MultiLock(std::vector<Part> locks) : MultiLock(Make(std::move(locks))) {}

MultiLock::~MultiLock() {
  if (apart_ != nullptr) apart_->End();
}

MultiLock::Made MultiLock::Make(const Client& client, std::vector<std::string> names,
                                MultiLockOptions options) {
  Made made;
  const auto shared =
      std::make_shared<const LockOptions>(LockOptions{.lease = options.lease,
                                                      .turn = options.turn,
                                                      .acks = options.acks,
                                                      .on_lost = std::move(options.on_lost)});
  made.body = std::make_shared<LockBody>(CoreOf(client), names, shared);
  absl::Status bad = CheckCount(names.size());
  if (bad.ok() && InOneSlot(*CoreOf(client), names)) return made;
  std::vector<std::unique_ptr<RedisLockBase>> own;
  std::vector<Part> parts;
  for (size_t i = 0; bad.ok() && i < names.size(); ++i) {
    own.push_back(std::make_unique<SimpleLock>(client, names[i], *shared));
    parts.emplace_back(own.back().get());
  }
  made.apart = std::make_shared<Apart>(std::move(parts), std::move(own), std::move(bad));
  return made;
}

// Those that one script can take are names of a lock of its own.
MultiLock::Made MultiLock::Make(std::vector<Part> locks) {
  Made made;
  absl::Status bad = Arrange(locks);
  if (!bad.ok()) locks.clear();
  const LockBody* const first = bad.ok() ? locks.front().lock_->body_.get() : nullptr;
  std::vector<std::string> names;
  bool together = bad.ok();
  for (const Part& part : locks) {
    names.push_back(part.lock_->name());
    together = together && dynamic_cast<const SimpleLock*>(part.lock_) != nullptr &&
               part.lock_->body_->core() == first->core();
  }
  together = together && InOneSlot(*first->core(), names);
  LockOptions options = first != nullptr ? *first->options() : LockOptions();
  options.cache_for = absl::ZeroDuration();
  made.body =
      std::make_shared<LockBody>(first != nullptr ? first->core() : nullptr, std::move(names),
                                 std::make_shared<const LockOptions>(std::move(options)));
  if (together) return made;
  made.apart = std::make_shared<Apart>(
      std::move(locks), std::vector<std::unique_ptr<RedisLockBase>>(), std::move(bad));
  return made;
}

// In their order, each lock once; or why they cannot be taken together.
absl::Status MultiLock::Arrange(std::vector<Part>& locks) {
  for (const Part& part : locks) {
    if (part.lock_ == nullptr) return absl::InvalidArgumentError("a MultiLock of a null pointer");
    if (dynamic_cast<const MultiLock*>(part.lock_) != nullptr) {
      return absl::InvalidArgumentError("a MultiLock in a MultiLock; name its locks instead");
    }
  }
  const auto place = [](const Part& part) {
    const internal::ClientCore& core = *part.lock_->body_->core();
    const std::string key = core.options().key_prefix + part.lock_->name();
    return std::tuple(core.server(), &core, key);
  };
  std::stable_sort(locks.begin(), locks.end(),
                   [&](const Part& a, const Part& b) { return place(a) < place(b); });
  const auto same = [&](const Part& a, const Part& b) { return place(a) == place(b); };
  for (size_t i = 1; i < locks.size(); ++i) {
    const Part& before = locks[i - 1];
    const RedisLockBase& one = *before.lock_;
    const RedisLockBase& other = *locks[i].lock_;
    const bool alike = before.reads_ == locks[i].reads_ && typeid(one) == typeid(other);
    if (alike || !same(before, locks[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a MultiLock has \"", before.lock_->name(),
        "\" twice, in two ways: as a reader and a writer, or as locks of two classes"));
  }
  locks.erase(std::unique(locks.begin(), locks.end(), same), locks.end());
  return CheckCount(locks.size());
}

// What a call that waits uses stays, though the object goes meanwhile.

void MultiLock::lock() {
  const std::shared_ptr<Apart> apart = apart_;
  if (apart == nullptr) return RedisLockBase::lock();
  bool deadlock = false;
  const absl::Status locked =
      apart->bad().ok() ? apart->Lock(absl::InfiniteDuration(), deadlock) : apart->bad();
  if (deadlock) ThrowDeadlock(locked);
  if (!locked.ok()) Throw(locked);
}

std::optional<bool> MultiLock::TryLockFor(absl::Duration wait) {
  const std::shared_ptr<Apart> apart = apart_;
  if (apart == nullptr) return RedisLockBase::TryLockFor(wait);
  bool deadlock = false;
  const absl::Status locked = apart->bad().ok() ? apart->Lock(wait, deadlock) : apart->bad();
  if (locked.ok()) return true;
  if (deadlock) return std::nullopt;
  if (IsBusy(locked)) return false;
  Throw(locked);
}

void MultiLock::unlock() noexcept {
  if (apart_ == nullptr) return RedisLockBase::unlock();
  if (apart_->bad().ok()) apart_->Unlock();
}

absl::StatusOr<Lease> MultiLock::AcquireBy(const Caller& caller, const AcquireOptions& options) {
  const std::shared_ptr<Apart> apart = apart_;
  if (apart == nullptr) return RedisLockBase::AcquireBy(caller, options);
  if (!apart->bad().ok()) return apart->bad();
  return apart->Acquire(caller, options);
}

void MultiLock::AcquireAsyncBy(const Caller& caller, const AcquireOptions& options,
                               AcquireCallback callback) {
  const std::shared_ptr<Apart> apart = apart_;
  if (apart == nullptr) {
    return RedisLockBase::AcquireAsyncBy(caller, options, std::move(callback));
  }
  apart->AcquireAsync(caller, options, internal::NotNull(std::move(callback)));
}

Hold MultiLock::current() const {
  if (apart_ == nullptr) return RedisLockBase::current();
  return apart_->bad().ok() ? apart_->Current() : Hold();
}

int MultiLock::hold_count() const {
  if (apart_ == nullptr) return RedisLockBase::hold_count();
  return apart_->bad().ok() ? apart_->HoldCount() : 0;
}

absl::StatusOr<LockInfo> MultiLock::Inspect() const {
  const std::shared_ptr<Apart> apart = apart_;
  if (apart == nullptr) return RedisLockBase::Inspect();
  return apart->bad().ok() ? apart->Inspect() : apart->bad();
}

absl::Status MultiLock::ForceRelease() {
  const std::shared_ptr<Apart> apart = apart_;
  if (apart == nullptr) return RedisLockBase::ForceRelease();
  return apart->bad().ok() ? apart->ForceRelease() : apart->bad();
}

// Of one name it is the simple lock of that name.
LockScripts MultiLock::Scripts() const {
  if (!body_->several()) return SimpleScripts();
  return {.acquire = lua::kMultiAcquire,
          .release = lua::kMultiRelease,
          .renew = lua::kMultiRenew,
          .cancel = lua::kMultiCancel,
          .inspect = lua::kMultiInspect,
          .force_release = lua::kMultiForceRelease};
}

LockTraits MultiLock::Traits() const {
  // Of one name it is a simple lock, with which it shares its scripts and their traits.
  const bool several = body_->several();
  return {.kind = several ? internal::kinds::kMulti : internal::kinds::kSimple,
          .cacheable = !several};
}

}  // namespace redlatch
