#include "redlatch/multi_lock.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lua/scripts.h"
#include "redlatch/simple_lock.h"
#include "src/api/lock_body.h"
#include "src/api/outcomes.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/lock/event_driver.h"
#include "src/lock/kinds.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/users_code.h"

namespace redlatch {
namespace {

using internal::EventDriver;

constexpr size_t kMostLocks = 64;
// Pauses between two rounds. They are short because a round waits for the lock that was refused.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

absl::Status CheckCount(size_t locks) {
  if (locks == 0) return absl::InvalidArgumentError("a MultiLock must have at least one lock");
  if (locks <= kMostLocks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a MultiLock of ", locks, " locks is too large; ", kMostLocks, " are the most"));
}

// Returns whether one script can have the keys of all.
bool InOneSlot(internal::ClientCore& core, const std::vector<std::string>& names) {
  const auto tag = [&](const std::string& name) {
    return core.server_group().slot_tag(core.options().key_prefix + name);
  };
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return tag(name) == tag(names.front()); });
}

// Returns whether another round may succeed. Locks of several clients are tried without waiting,
// and the next round waits for the one that was refused.
bool MayPass(const absl::Status& why, bool of_one_client) {
  return absl::IsAborted(why) ||
         (!of_one_client && (absl::IsDeadlineExceeded(why) || absl::IsUnavailable(why)));
}

absl::Status LostMeanwhile() {
  return absl::AbortedError("one of the locks was lost while another was waited for");
}
absl::Status Stopped() { return absl::CancelledError("the wait was stopped"); }

// The leases behind a lease of several locks. They are released with it, the last one first.
class JointHoldOwner final : public internal::HoldOwner {
 public:
  JointHoldOwner(std::shared_ptr<internal::ClientCore> core, std::vector<Lease> leases)
      : core_(std::move(core)), leases_(std::move(leases)) {}
  ~JointHoldOwner() override { ReleaseQuietly(0, {}); }

  absl::Status Refusal() const override { return core_->Refusal(); }

  absl::Status Release(uint64_t, FencingToken) override {
    absl::Status result;
    for (size_t i = leases_.size(); i-- > 0;) Add(leases_[i].Release(), result);
    return result;
  }

  void ReleaseQuietly(uint64_t, FencingToken) override {
    while (!leases_.empty()) leases_.pop_back();
  }

  // The result of the last one completes the release.
  void ReleaseAsync(uint64_t, FencingToken, Then then) override {
    struct Joint {
      base::Mutex mu;
      size_t left ABSL_GUARDED_BY(mu) = 0;
      absl::Status result ABSL_GUARDED_BY(mu);
      Then then ABSL_GUARDED_BY(mu);
    };
    auto joint = std::make_shared<Joint>();
    {
      const base::MutexLock lock(joint->mu);
      joint->left = leases_.size();
      joint->then = std::move(then);
    }
    for (size_t i = leases_.size(); i-- > 0;) {
      leases_[i].ReleaseAsync([joint](const absl::Status& released) {
        absl::AnyInvocable<void() &&> last;
        {
          const base::MutexLock lock(joint->mu);
          Add(base::Unshared(released), joint->result);
          if (--joint->left == 0) last = std::move(joint->then)(joint->result);
        }
        if (last) std::move(last)();
      });
    }
  }

  absl::Status Extend(uint64_t, absl::Duration lease) override {
    for (Lease& each : leases_) {
      if (absl::Status extended = each.Extend(lease); !extended.ok()) return extended;
    }
    return absl::OkStatus();
  }

  void Tell(absl::AnyInvocable<void() &&> completion) override {
    core_->event_driver().Complete(std::move(completion));
  }

 private:
  // A release that is not confirmed outweighs a loss: only it is worth another call.
  static void Add(absl::Status released, absl::Status& result) {
    if (result.ok() || (absl::IsAborted(result) && !released.ok())) result = std::move(released);
  }

  const std::shared_ptr<internal::ClientCore> core_;  // of one of them
  std::vector<Lease> leases_;
};

}  // namespace

// Locks that no script can take together. Those of one client are taken in the order of their keys,
// which all programs share. Those of several clients have no common order, since one server may
// have several names, so only one is ever waited for, while none is held. Thread-safe.
class MultiLock::Apart final : public Body, public std::enable_shared_from_this<Apart> {
 public:
  // Each lock once. `own`: the locks that were made for this. `bad`: why they cannot be used, or
  // OK.
  Apart(std::string name, const std::vector<Part>& parts,
        std::vector<std::unique_ptr<RedisLockBase>> own, absl::Status bad)
      : Body(std::move(name)), own_(std::move(own)), bad_(std::move(bad)) {
    for (const Part& part : parts) {
      parts_.push_back({std::static_pointer_cast<LockBody>(BodyOf(*part.lock())), part.reads()});
      of_one_client_ = of_one_client_ && parts_.back().body->core() == parts_.front().body->core();
    }
  }

  absl::Status Lock(bool reads, absl::Duration wait, bool& deadlock) override;
  void Unlock(bool reads) noexcept override;
  absl::StatusOr<Lease> Acquire(bool reads, const Caller& caller,
                                const AcquireOptions& options) override;
  void AcquireAsync(bool reads, const Caller& caller, const AcquireOptions& options,
                    AcquireCallback callback) override;
  Hold Current(bool reads) override;
  int HoldCount(bool reads) override;
  absl::StatusOr<LockInfo> Inspect() override;
  absl::Status ForceRelease() override;
  void Close() override;

 private:
  struct Side {
    std::shared_ptr<LockBody> body;
    bool reads = false;
  };
  // What a call works with: while it waits, this object and the locks may be destroyed.
  using Accesses = std::vector<LockBody::Access>;
  // How one lock is taken and given back, and whether it is still held.
  struct Ways {
    std::function<absl::Status(size_t, absl::Duration wait, const std::stop_token& stop)> take;
    std::function<void(size_t)> give_back;
    std::function<bool(size_t)> holds;
  };
  // An acquisition without a thread.
  class Chain;

  absl::StatusOr<Accesses> AccessesFor(const Caller& caller) const;
  absl::Status TakeAll(const Ways& ways, absl::Duration wait, const std::stop_token& stop) const;
  // Returns which lock was refused.
  size_t TakeFrom(const Ways& ways, size_t first, absl::Duration wait, const std::stop_token& stop,
                  absl::Status& status) const;
  static Hold Joined(const Accesses& accesses, const std::vector<Hold>& holds);
  static Lease LeaseOf(const Accesses& accesses, std::vector<Lease> leases);

  const std::vector<std::unique_ptr<RedisLockBase>> own_;
  const absl::Status bad_;
  std::vector<Side> parts_;
  bool of_one_client_ = true;
  std::stop_source gone_;
};

void MultiLock::Apart::Close() {
  if (!parts_.empty() && parts_.front().body->core()->in_forked_child()) return;
  gone_.request_stop();
}

auto MultiLock::Apart::AccessesFor(const Caller& caller) const -> absl::StatusOr<Accesses> {
  if (!bad_.ok()) return bad_;
  Accesses accesses;
  for (const Side& part : parts_) {
    auto access = part.body->AccessFor(part.reads, caller);
    if (!access.ok()) return access.status();
    accesses.push_back(*std::move(access));
  }
  return accesses;
}

// Takes the locks from `first` on, and round. Locks of one client are all waited for; of others,
// the first alone.
size_t MultiLock::Apart::TakeFrom(const Ways& ways, size_t first, absl::Duration wait,
                                  const std::stop_token& stop, absl::Status& status) const {
  const base::Instant end = base::Now() + wait;
  size_t taken = 0;
  const auto at = [&](size_t i) { return (first + i) % parts_.size(); };
  absl::Cleanup rollback = [&] {
    while (taken > 0) ways.give_back(at(--taken));
  };
  for (; taken < parts_.size(); ++taken) {
    const bool waits = taken == 0 || of_one_client_;
    status = ways.take(at(taken), waits ? base::Until(end) : absl::ZeroDuration(), stop);
    if (!status.ok()) return at(taken);
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (ways.holds(at(i))) continue;
    status = LostMeanwhile();
    return at(i);
  }
  std::move(rollback).Cancel();
  return first;
}

absl::Status MultiLock::Apart::TakeAll(const Ways& ways, absl::Duration wait,
                                       const std::stop_token& stop) const {
  std::stop_source stopped;
  const auto end_it = [&] { stopped.request_stop(); };
  const std::stop_callback by_caller(stop, end_it);
  const std::stop_callback with_object(gone_.get_token(), end_it);
  const base::Instant end = base::Now() + wait;
  base::Backoff backoff(kFirstPause, kLongestPause);
  size_t first = 0;
  for (;;) {
    absl::Status status;
    const size_t refused = TakeFrom(ways, first, base::Until(end), stopped.get_token(), status);
    if (status.ok()) return status;
    const base::Instant next = base::Now() + backoff.Next();
    if (!MayPass(status, of_one_client_) || end <= next) return status;
    if (stopped.stop_requested()) return Stopped();
    if (!of_one_client_) first = refused;
    base::Parker().ParkUntil(next);
  }
}

absl::Status MultiLock::Apart::Lock(bool, absl::Duration wait, bool& deadlock) {
  const auto self = shared_from_this();
  const absl::StatusOr<Accesses> accesses = AccessesFor({});
  if (!accesses.ok()) return accesses.status();
  const Ways ways = {
      .take = [&](size_t i, absl::Duration its_wait, const std::stop_token& stop) -> absl::Status {
        return (*accesses)[i]
            .Acquire(internal::Face::kStd, {.wait = its_wait, .stop = stop})
            .status();
      },
      .give_back = [&](size_t i) { (*accesses)[i].Unlock(); },
      .holds =
          [&](size_t i) {
            const auto view = (*accesses)[i].Current().view;
            return view != nullptr && view->Valid(base::Now());
          },
  };
  absl::Status taken = TakeAll(ways, wait, {});
  deadlock = absl::IsFailedPrecondition(taken) &&
             std::any_of(accesses->begin(), accesses->end(), [](LockBody::Access access) {
               if (access.OfThisThread().depth > 0) return true;
               access.reads = !access.reads;
               return access.OfThisThread().depth > 0;
             });
  return taken;
}

void MultiLock::Apart::Unlock(bool) noexcept {
  for (size_t i = parts_.size(); i-- > 0;) parts_[i].body->Unlock(parts_[i].reads);
}

absl::StatusOr<Lease> MultiLock::Apart::Acquire(bool, const Caller& caller,
                                                const AcquireOptions& options) {
  const auto self = shared_from_this();
  const absl::StatusOr<Accesses> accesses = AccessesFor(caller);
  if (!accesses.ok()) return accesses.status();
  std::vector<Lease> leases(accesses->size());
  const Ways ways = {
      .take = [&](size_t i, absl::Duration wait, const std::stop_token& stop) -> absl::Status {
        AcquireOptions its = options;
        its.wait = wait;
        its.stop = stop;
        auto lease = redlatch::LeaseOf((*accesses)[i].Acquire(internal::Face::kStatus, its));
        if (!lease.ok()) return lease.status();
        leases[i] = *std::move(lease);
        return absl::OkStatus();
      },
      .give_back = [&](size_t i) { leases[i] = Lease(); },
      .holds = [&](size_t i) { return leases[i].valid(); },
  };
  if (absl::Status taken = TakeAll(ways, options.wait, options.stop); !taken.ok()) return taken;
  return LeaseOf(*accesses, std::move(leases));
}

Lease MultiLock::Apart::LeaseOf(const Accesses& accesses, std::vector<Lease> leases) {
  std::vector<Hold> holds;
  for (const Lease& lease : leases) holds.push_back(lease.hold());
  Hold joined = Joined(accesses, holds);
  auto owner = std::make_shared<JointHoldOwner>(accesses.front().body->core(), std::move(leases));
  return Lease(std::move(owner), 1, std::move(joined));
}

Hold MultiLock::Apart::Joined(const Accesses& accesses, const std::vector<Hold>& holds) {
  std::vector<internal::JointHoldState::Part> parts;
  for (size_t i = 0; i < holds.size(); ++i) {
    if (holds[i].state() == nullptr) return {};
    parts.push_back({.name = accesses[i].body->name(),
                     .token = holds[i].fencing_token(),
                     .view = holds[i].state()});
  }
  return Hold(std::make_shared<internal::JointHoldState>(std::move(parts)), FencingToken());
}

Hold MultiLock::Apart::Current(bool) {
  const absl::StatusOr<Accesses> accesses = AccessesFor({});
  if (!accesses.ok()) return {};
  std::vector<Hold> holds;
  for (const LockBody::Access& access : *accesses) holds.push_back(HoldOf(access.Current()));
  return Joined(*accesses, holds);
}

int MultiLock::Apart::HoldCount(bool) {
  const absl::StatusOr<Accesses> accesses = AccessesFor({});
  if (!accesses.ok()) return 0;
  uint32_t fewest = std::numeric_limits<uint32_t>::max();
  for (const auto& access : *accesses) fewest = std::min(fewest, access.OfThisThread().depth);
  return static_cast<int>(fewest);
}

absl::StatusOr<LockInfo> MultiLock::Apart::Inspect() {
  const absl::StatusOr<Accesses> accesses = AccessesFor({});
  if (!accesses.ok()) return accesses.status();
  LockInfo all;
  for (const LockBody::Access& access : *accesses) {
    absl::StatusOr<LockInfo> info = access.handle->Inspect();
    if (!info.ok()) return info.status();
    std::move(info->holders.begin(), info->holders.end(), std::back_inserter(all.holders));
    std::move(info->waiters.begin(), info->waiters.end(), std::back_inserter(all.waiters));
    all.holding += info->holding;
    all.waiting += info->waiting;
  }
  all.kind = "multi";
  return all;
}

absl::Status MultiLock::Apart::ForceRelease() {
  const absl::StatusOr<Accesses> accesses = AccessesFor({});
  if (!accesses.ok()) return accesses.status();
  absl::Status result;
  for (const auto& access : *accesses) result.Update(access.handle->ForceRelease());
  return result;
}

// TakeAll() in steps, one at a time, on the threads of its clients. What it waits for keeps it.
class MultiLock::Apart::Chain : public std::enable_shared_from_this<Chain> {
 public:
  Chain(const Apart& apart, Accesses accesses, AcquireOptions options, AcquireCallback callback)
      : accesses_(std::move(accesses)),
        of_one_client_(apart.of_one_client_),
        options_(std::move(options)),
        callback_(std::move(callback)),
        end_(base::Now() + options_.wait),
        leases_(accesses_.size()) {
    by_caller_.emplace(options_.stop, [this] { stopped_.request_stop(); });
    with_object_.emplace(apart.gone_.get_token(), [this] { stopped_.request_stop(); });
  }

  void TakeNext() {
    const bool waits = taken_ == 0 || of_one_client_;
    AcquireOptions its = options_;
    its.wait = waits ? base::Until(end_) : absl::ZeroDuration();
    its.stop = stopped_.get_token();
    const LockBody::Access& access = accesses_[At(taken_)];
    access.body->AcquireAsync(access, its, EventDriver::Whose::kOwn,
                              [self = shared_from_this()](absl::StatusOr<Lease> lease) {
                                self->OnTaken(std::move(lease));
                              });
  }

 private:
  size_t At(size_t i) const { return (first_ + i) % leases_.size(); }
  // The first client's, which says where callbacks run.
  EventDriver& driver() const { return accesses_.front().body->core()->event_driver(); }

  void OnTaken(absl::StatusOr<Lease> lease) {
    if (!lease.ok()) return OnRefused(At(taken_), lease.status());
    leases_[At(taken_++)] = *std::move(lease);
    if (taken_ < leases_.size()) return TakeNext();
    for (size_t i = 0; i < leases_.size(); ++i) {
      if (!leases_[At(i)].valid()) return OnRefused(At(i), LostMeanwhile());
    }
    Finish(LeaseOf(accesses_, std::move(leases_)));
  }

  void OnRefused(size_t refused, const absl::Status& why) {
    while (taken_ > 0) leases_[At(--taken_)] = Lease();
    const base::Instant next = base::Now() + backoff_.Next();
    if (!MayPass(why, of_one_client_) || end_ <= next) return Finish(why);
    if (stopped_.stop_requested()) return Finish(Stopped());
    if (!of_one_client_) first_ = refused;
    EventDriver& driver = this->driver();
    driver.Begin(std::make_unique<internal::EventTimer>(
        driver, next, [self = shared_from_this()] { self->TakeNext(); }));
  }

  void Finish(absl::StatusOr<Lease> lease) {
    by_caller_.reset();
    with_object_.reset();
    driver().Complete([callback = std::move(callback_), lease = std::move(lease)]() mutable {
      std::move(callback)(std::move(lease));
    });
  }

  const Accesses accesses_;
  const bool of_one_client_;
  const AcquireOptions options_;
  AcquireCallback callback_;
  const base::Instant end_;
  std::vector<Lease> leases_;
  size_t first_ = 0;  // where a round begins
  size_t taken_ = 0;
  base::Backoff backoff_{kFirstPause, kLongestPause};
  std::stop_source stopped_;
  std::optional<std::stop_callback<std::function<void()>>> by_caller_;
  std::optional<std::stop_callback<std::function<void()>>> with_object_;
};

void MultiLock::Apart::AcquireAsync(bool, const Caller& caller, const AcquireOptions& options,
                                    AcquireCallback callback) {
  callback = internal::NotNull(std::move(callback));
  absl::StatusOr<Accesses> accesses = AccessesFor(caller);
  if (accesses.ok()) {
    return std::make_shared<Chain>(*this, *std::move(accesses), options, std::move(callback))
        ->TakeNext();
  }
  if (!parts_.empty()) {
    return parts_.front().body->core()->event_driver().Complete(
        [callback = std::move(callback), bad = base::Unshared(accesses.status())]() mutable {
          std::move(callback)(std::move(bad));
        });
  }
  // Without locks it has no client either.
  base::RunApart(
      "redlatch-async", [callback = std::make_shared<AcquireCallback>(std::move(callback)),
                         bad = std::make_shared<absl::Status>(base::Unshared(bad_))] {
        internal::RunUsersCode("a callback", [&] { std::move (*callback)(std::move(*bad)); });
      });
}

// ---- Which way the locks are taken.

MultiLock::MultiLock(const Client& client, std::vector<std::string> names, MultiLockOptions options)
    : RedisLockBase(Make(client, std::move(names), std::move(options))) {}

MultiLock::MultiLock(std::vector<Part> locks) : RedisLockBase(Make(std::move(locks))) {}

auto MultiLock::Make(const Client& client, std::vector<std::string> names, MultiLockOptions options)
    -> std::shared_ptr<Body> {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  LockOptions each{.lease = options.lease,
                   .turn = options.turn,
                   .acks = options.acks,
                   .on_lost = std::move(options.on_lost)};
  absl::Status bad = CheckCount(names.size());
  if (bad.ok() && InOneSlot(*client.core(), names)) {
    return std::make_shared<LockBody>(client.core(), std::move(names), std::move(each),
                                      &internal::kinds::kSimpleKeys);
  }
  std::vector<std::unique_ptr<RedisLockBase>> own;
  std::vector<Part> parts;
  for (size_t i = 0; bad.ok() && i < names.size(); ++i) {
    own.push_back(std::make_unique<SimpleLock>(client, names[i], each));
    parts.emplace_back(own.back().get());
  }
  return std::make_shared<Apart>(absl::StrJoin(names, ", "), std::move(parts), std::move(own),
                                 std::move(bad));
}

auto MultiLock::Make(std::vector<Part> locks) -> std::shared_ptr<Body> {
  absl::Status bad = Arrange(locks);
  if (!bad.ok()) locks.clear();
  std::vector<std::string> names;
  bool together = bad.ok();
  const auto body = [](const Part& part) -> const LockBody& {
    return static_cast<const LockBody&>(*BodyOf(*part.lock()));
  };
  for (const Part& part : locks) {
    names.push_back(part.lock()->name());
    together = together && dynamic_cast<const SimpleLock*>(part.lock()) != nullptr &&
               body(part).core() == body(locks.front()).core();
  }
  if (together && InOneSlot(*body(locks.front()).core(), names)) {
    LockOptions options = body(locks.front()).options();
    options.cache_for = absl::ZeroDuration();
    return std::make_shared<LockBody>(body(locks.front()).core(), std::move(names),
                                      std::move(options), &internal::kinds::kSimpleKeys);
  }
  return std::make_shared<Apart>(absl::StrJoin(names, ", "), std::move(locks),
                                 std::vector<std::unique_ptr<RedisLockBase>>(), std::move(bad));
}

// Puts the locks in their order, each once; or returns why they cannot be taken together.
absl::Status MultiLock::Arrange(std::vector<Part>& locks) {
  for (const Part& part : locks) {
    if (part.lock() == nullptr) return absl::InvalidArgumentError("a MultiLock of a null pointer");
    if (dynamic_cast<const MultiLock*>(part.lock()) != nullptr) {
      return absl::InvalidArgumentError("a MultiLock in a MultiLock; name its locks instead");
    }
  }
  const auto place = [](const Part& part) {
    const auto& core = *static_cast<const LockBody&>(*BodyOf(*part.lock())).core();
    const std::string key = core.options().key_prefix + part.lock()->name();
    return std::tuple(core.server(), &core, key);
  };
  std::stable_sort(locks.begin(), locks.end(),
                   [&](const Part& a, const Part& b) { return place(a) < place(b); });
  const auto same = [&](const Part& a, const Part& b) { return place(a) == place(b); };
  for (size_t i = 1; i < locks.size(); ++i) {
    const Part& before = locks[i - 1];
    const RedisLockBase& one = *before.lock();
    const RedisLockBase& other = *locks[i].lock();
    const bool alike = before.reads() == locks[i].reads() && typeid(one) == typeid(other);
    if (alike || !same(before, locks[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a MultiLock has \"", before.lock()->name(),
        "\" twice, in two ways: as a reader and a writer, or as locks of two classes"));
  }
  locks.erase(std::unique(locks.begin(), locks.end(), same), locks.end());
  return CheckCount(locks.size());
}

// A lock of one name is the simple lock of that name, with its scripts and their traits.
LockScripts MultiLock::Scripts() const {
  if (!static_cast<const LockBody&>(*BodyOf(*this)).several()) return SimpleScripts();
  return {.acquire = lua::kMultiAcquire,
          .release = lua::kMultiRelease,
          .renew = lua::kMultiRenew,
          .cancel = lua::kMultiCancel,
          .inspect = lua::kMultiInspect,
          .force_release = lua::kMultiForceRelease};
}

LockTraits MultiLock::Traits() const {
  const bool several = static_cast<const LockBody&>(*BodyOf(*this)).several();
  return {.kind = several ? internal::kinds::kMulti : internal::kinds::kSimple,
          .cacheable = !several};
}

}  // namespace redlatch
