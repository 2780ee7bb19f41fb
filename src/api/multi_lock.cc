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
#include "src/base/error_address.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/status.h"
#include "src/base/utf8.h"
#include "src/lock/event_driver.h"
#include "src/lock/kinds.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/state/multi_operation.h"
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

// Returns whether one script can have the keys of all.
bool InOneSlot(internal::ClientCore& core, const std::vector<std::string>& names) {
  const auto tag = [&](const std::string& name) {
    return core.server_group().slot_tag(core.options().key_prefix + name);
  };
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return tag(name) == tag(names.front()); });
}

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
  absl::Status StayTaken(uint64_t, absl::Duration) override {
    return base::WithAddress(internal::CannotStayTaken());
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

// Locks that no script can take together: see MultiOperation. Thread-safe.
class MultiLock::Apart final : public Body {
 public:
  // Each lock once. `own`: the locks that were made for this. `bad`: why they cannot be used, or
  // OK.
  Apart(std::string name, const std::vector<Part>& parts,
        std::vector<std::unique_ptr<RedisLockBase>> own, absl::Status bad)
      : Body(std::move(name)), own_(std::move(own)), bad_(std::move(bad)) {
    for (const Part& part : parts) {
      sides_.push_back({std::static_pointer_cast<LockBody>(BodyOf(*part.lock())), part.reads()});
      of_one_client_ = of_one_client_ && sides_.back().body->core() == sides_.front().body->core();
    }
  }

  absl::Status Lock(bool reads, const AcquireOptions& options, bool& deadlock) override;
  void Unlock(bool reads) noexcept override;
  absl::StatusOr<Lease> Acquire(bool reads, const Caller& caller,
                                const AcquireOptions& options) override;
  void AcquireAsync(bool reads, const Caller& caller, const AcquireOptions& options,
                    AcquireCallback callback, Whose whose) override;
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
  class Call;

  // Attaches all locks, so that a call needs no lock object afterwards. Returns why the caller
  // cannot acquire them, or OK.
  absl::Status Prepare(const Caller& caller, const AcquireOptions& options) const;
  static Hold Joined(const std::vector<Side>& sides, const std::vector<Hold>& holds);

  const std::vector<std::unique_ptr<RedisLockBase>> own_;
  const absl::Status bad_;
  std::vector<Side> sides_;
  bool of_one_client_ = true;
  std::stop_source gone_;
};

// Executes one acquisition of all locks; MultiOperation decides. It keeps all that it needs:
// meanwhile, the MultiLock and its locks may be destroyed.
class MultiLock::Apart::Call : public std::enable_shared_from_this<Call> {
 public:
  enum class How : uint8_t {
    kLock,     // the calling thread locks, as lock() does
    kAcquire,  // the calling thread acquires leases
    kAsync,    // no thread waits
  };
  Call(const Apart& apart, How how, Caller caller, AcquireOptions options,
       AcquireCallback callback = nullptr)
      : sides_(apart.sides_),
        how_(how),
        caller_(std::move(caller)),
        options_(std::move(options)),
        callback_(std::move(callback)),
        operation_(sides_.size(), apart.of_one_client_, base::Now() + options_.wait),
        leases_(sides_.size()) {
    by_caller_.emplace(options_.stop, [this] { stopped_.request_stop(); });
    with_object_.emplace(apart.gone_.get_token(), [this] { stopped_.request_stop(); });
    options_.stop = stopped_.get_token();
  }

  // Executes the operation's actions until it is over, or until the call must wait without a
  // thread; then this is called again.
  void Run(absl::Status outcome) {
    using Kind = internal::MultiOperation::Action::Kind;
    const auto holds = [this](size_t i) { return Holds(i); };
    for (;;) {
      const auto action =
          operation_.Resume(std::move(outcome), holds, stopped_.stop_requested(), base::Now());
      if (action.kind == Kind::kDone) return Finish();
      outcome = absl::OkStatus();
      if (action.kind == Kind::kTake) {
        options_.wait = base::Until(action.until);
        if (how_ == How::kAsync) return base::WithMemory([&] { TakeAsync(action.lock); });
        outcome = Take(action.lock);
      } else if (action.kind == Kind::kGiveBack) {
        GiveBack(action.lock);
      } else if (how_ == How::kAsync) {
        return base::WithMemory([&] { SleepAsync(action.until); });
      } else {
        base::Parker().ParkUntil(action.until);
      }
    }
  }

  const absl::Status& outcome() const { return operation_.outcome(); }
  bool deadlock() const { return deadlock_; }
  absl::StatusOr<Lease> TakeLease() {
    if (!outcome().ok()) return outcome();
    std::vector<Hold> holds;
    for (const Lease& lease : leases_) holds.push_back(lease.hold());
    Hold joined = Joined(sides_, holds);  // what fails must not take the leases
    return Lease(std::make_shared<JointHoldOwner>(sides_.front().body->core(), std::move(leases_)),
                 1, std::move(joined));
  }

 private:
  // The first client's, which says where callbacks run.
  internal::EventDriver& driver() const { return sides_.front().body->core()->event_driver(); }

  absl::Status Take(size_t i) {
    const Side& side = sides_[i];
    if (how_ == How::kLock) return side.body->Lock(side.reads, options_, deadlock_);
    return Keep(i, side.body->Acquire(side.reads, caller_, options_));
  }
  absl::Status Keep(size_t i, absl::StatusOr<Lease> lease) {
    if (!lease.ok()) return lease.status();
    leases_[i] = *std::move(lease);
    return absl::OkStatus();
  }
  void TakeAsync(size_t i) {
    sides_[i].body->AcquireAsync(
        sides_[i].reads, caller_, options_,
        [self = shared_from_this(), i](absl::StatusOr<Lease> lease) {
          self->Run(self->Keep(i, std::move(lease)));
        },
        Whose::kOwn);
  }
  void SleepAsync(base::Instant until) {
    internal::EventDriver& driver = this->driver();
    driver.Begin(std::make_unique<internal::EventTimer>(
        driver, until, [self = shared_from_this()] { self->Run(absl::OkStatus()); }));
  }
  void GiveBack(size_t i) {
    const Side& side = sides_[i];
    if (how_ != How::kLock) {
      leases_[i] = Lease();
    } else if (side.body->OfThisThread(side.reads).hold != 0) {
      side.body->Unlock(side.reads);  // else it was released with the last lock object
    }
  }
  bool Holds(size_t i) const {
    const Side& side = sides_[i];
    return how_ == How::kLock ? side.body->Current(side.reads).valid() : leases_[i].valid();
  }
  void Finish() {
    by_caller_.reset();
    with_object_.reset();
    if (how_ != How::kAsync) return;
    driver().Complete([self = shared_from_this()] {
      std::move(self->callback_)(base::WithMemory([&] { return self->TakeLease(); }));
    });
  }

  const std::vector<Side> sides_;
  const How how_;
  const Caller caller_;
  AcquireOptions options_;
  AcquireCallback callback_;
  internal::MultiOperation operation_;
  std::vector<Lease> leases_;
  bool deadlock_ = false;
  std::stop_source stopped_;
  std::optional<std::stop_callback<std::function<void()>>> by_caller_;
  std::optional<std::stop_callback<std::function<void()>>> with_object_;
};

void MultiLock::Apart::Close() {
  if (!sides_.empty() && sides_.front().body->core()->in_forked_child()) return;
  gone_.request_stop();
}

absl::Status MultiLock::Apart::Prepare(const Caller& caller, const AcquireOptions& options) const {
  absl::Status bad = bad_;
  if (options.at_least != absl::ZeroDuration()) bad.Update(internal::CannotStayTaken());
  for (const Side& side : sides_) bad.Update(side.body->HandleFor(side.reads, caller).status());
  return base::WithAddress(bad);
}

absl::Status MultiLock::Apart::Lock(bool, const AcquireOptions& options, bool& deadlock) {
  if (absl::Status bad = Prepare({}, {}); !bad.ok()) return bad;
  Call call(*this, Call::How::kLock, {}, options);
  // After an exception, the operation gives back what it has taken.
  absl::Cleanup fail = [&] { call.Run(absl::CancelledError()); };
  call.Run(absl::OkStatus());
  std::move(fail).Cancel();
  deadlock = call.deadlock();
  return call.outcome();
}

void MultiLock::Apart::Unlock(bool) noexcept {
  for (size_t i = sides_.size(); i-- > 0;) sides_[i].body->Unlock(sides_[i].reads);
}

absl::StatusOr<Lease> MultiLock::Apart::Acquire(bool, const Caller& caller,
                                                const AcquireOptions& options) {
  if (absl::Status bad = Prepare(caller, options); !bad.ok()) return bad;
  Call call(*this, Call::How::kAcquire, caller, options);
  call.Run(absl::OkStatus());
  return call.TakeLease();
}

void MultiLock::Apart::AcquireAsync(bool, const Caller& caller, const AcquireOptions& options,
                                    AcquireCallback callback, Whose) {
  callback = internal::NotNull(std::move(callback));
  absl::Status bad = base::Unshared(Prepare(caller, options));
  if (bad.ok()) {
    std::make_shared<Call>(*this, Call::How::kAsync, caller, options, std::move(callback))
        ->Run(absl::OkStatus());
    return;
  }
  auto told = [callback = std::move(callback), bad = std::move(bad)]() mutable {
    std::move(callback)(std::move(bad));
  };
  if (!sides_.empty()) {
    return sides_.front().body->core()->event_driver().Complete(std::move(told));
  }
  internal::RunCallbackApart(std::move(told));  // without locks it has no client
}

Hold MultiLock::Apart::Joined(const std::vector<Side>& sides, const std::vector<Hold>& holds) {
  std::vector<internal::JointHoldState::Part> parts;
  for (size_t i = 0; i < holds.size(); ++i) {
    if (holds[i].state() == nullptr) return {};
    parts.push_back({.name = sides[i].body->name(),
                     .token = holds[i].fencing_token(),
                     .view = holds[i].state()});
  }
  if (parts.empty()) return {};
  return Hold(std::make_shared<internal::JointHoldState>(std::move(parts)), FencingToken());
}

Hold MultiLock::Apart::Current(bool) {
  std::vector<Hold> holds;
  for (const Side& side : sides_) holds.push_back(side.body->Current(side.reads));
  return Joined(sides_, holds);
}

int MultiLock::Apart::HoldCount(bool) {
  int fewest = sides_.empty() ? 0 : std::numeric_limits<int>::max();
  for (const Side& side : sides_) fewest = std::min(fewest, side.body->HoldCount(side.reads));
  return fewest;
}

absl::StatusOr<LockInfo> MultiLock::Apart::Inspect() {
  if (absl::Status bad = Prepare({}, {}); !bad.ok()) return bad;
  LockInfo all;
  for (const Side& side : sides_) {
    absl::StatusOr<LockInfo> info = side.body->Inspect();
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
  absl::Status result = Prepare({}, {});
  if (!result.ok()) return result;
  for (const Side& side : sides_) result.Update(side.body->ForceRelease());
  return result;
}

// ---- Which way the locks are taken.

MultiLock::MultiLock(const Client& client, const std::vector<std::string>& names,
                     MultiLockOptions options)
    : RedisLockBase(Make(client, names, std::move(options))) {}

MultiLock::MultiLock(std::vector<Part> locks) : RedisLockBase(Make(std::move(locks), {})) {}

auto MultiLock::Make(const Client& client, const std::vector<std::string>& names,
                     MultiLockOptions options) -> std::shared_ptr<Body> {
  const LockOptions each{.lease = options.lease,
                         .turn = options.turn,
                         .acks = options.acks,
                         .on_lost = std::move(options.on_lost)};
  std::vector<std::unique_ptr<RedisLockBase>> own;
  std::vector<Part> parts;
  for (const std::string& name : names) {
    own.push_back(std::make_unique<SimpleLock>(client, name, each));
    parts.emplace_back(own.back().get());
  }
  return Make(std::move(parts), std::move(own));
}

auto MultiLock::Make(std::vector<Part> locks, std::vector<std::unique_ptr<RedisLockBase>> own)
    -> std::shared_ptr<Body> {
  absl::Status bad = Arrange(locks);
  std::vector<std::string> names;
  for (const Part& part : locks) {
    if (part.lock() != nullptr) names.push_back(part.lock()->name());
  }
  if (!bad.ok()) {
    return std::make_shared<Apart>(absl::StrJoin(names, ", "), std::vector<Part>(), std::move(own),
                                   std::move(bad));
  }
  const auto body = [](const Part& part) -> const LockBody& {
    return static_cast<const LockBody&>(*BodyOf(*part.lock()));
  };
  const std::shared_ptr<internal::ClientCore> core = body(locks.front()).core();
  const bool simple = std::ranges::all_of(locks, [&](const Part& part) {
    return dynamic_cast<const SimpleLock*>(part.lock()) != nullptr && body(part).core() == core;
  });
  if (simple && InOneSlot(*core, names)) {
    LockOptions options = body(locks.front()).options();
    options.cache_for = absl::ZeroDuration();
    return std::make_shared<LockBody>(core, std::move(names), std::move(options),
                                      &internal::kinds::kSimpleKeys);
  }
  return std::make_shared<Apart>(absl::StrJoin(names, ", "), locks, std::move(own),
                                 absl::OkStatus());
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
    return std::tuple(core.server(), key, &core);
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
    return absl::InvalidArgumentError(
        absl::StrCat("a MultiLock has ", base::Quoted(before.lock()->name()),
                     " twice, in two ways: as a reader and a writer, or as locks of two classes"));
  }
  locks.erase(std::unique(locks.begin(), locks.end(), same), locks.end());
  return CheckCount(locks.size());
}

// A lock of one name is the simple lock of that name, with its scripts and their traits.
LockScripts MultiLock::Scripts() const {
  return static_cast<const LockBody&>(*BodyOf(*this)).several() ? lua::kMultiScripts
                                                                : lua::kSimpleScripts;
}

LockTraits MultiLock::Traits() const {
  const bool several = static_cast<const LockBody&>(*BodyOf(*this)).several();
  return {.kind = several ? internal::kinds::kMulti : internal::kinds::kSimple,
          .cacheable = !several};
}

}  // namespace redlatch
