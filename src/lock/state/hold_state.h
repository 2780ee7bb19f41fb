// What a redlatch::Hold shows, and what a redlatch::Lease releases.
#ifndef REDLATCH_SRC_LOCK_STATE_HOLD_STATE_H_
#define REDLATCH_SRC_LOCK_STATE_HOLD_STATE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/fencing_token.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"

namespace redlatch::internal {

// The state of a hold that a redlatch::Hold shows. It may outlive the hold, its lock and its
// client, and keeps none of them alive. In a forked child, the hold is over. Thread-safe.
class HoldState {
 public:
  explicit HoldState(base::Instant deadline = base::Instant()) : deadline_(deadline.nanos()) {}
  HoldState(const HoldState&) = delete;
  HoldState& operator=(const HoldState&) = delete;
  virtual ~HoldState() = default;

  bool Valid(base::Instant now) const { return now < Deadline(); }
  virtual base::Instant Deadline() const;  // Instant() if it is over
  // If the hold is lost or about to be, returns a token whose stop is already requested.
  virtual std::stop_token Lost(base::Instant now);
  // Returns a token that fires when a waiter wants the lock. If the hold is not told of waiters,
  // the token has no state.
  virtual std::stop_token Wanted();
  virtual int acked_by() const { return acked_by_.load(std::memory_order_relaxed); }
  // The token of one lock, if the hold consists of several.
  virtual std::optional<FencingToken> TokenOf(std::string_view) const { return std::nullopt; }

  // Called by the hold's lock state only.
  void SetAckedBy(int16_t replicas) { acked_by_.store(replicas, std::memory_order_relaxed); }
  void Prolong(base::Instant deadline) { deadline_.store(deadline.nanos()); }
  void Release() { Prolong(base::Instant()); }
  void Lose();
  // The hold is told of waiters. `wanted`: a waiter wants the lock already.
  void SetWanted(bool wanted);

  // The event that a stop token announces.
  enum class Signal : uint8_t { kLost, kWanted };
  // Fires all tokens for that event that were handed out before. Runs users' code.
  void Fire(Signal signal = Signal::kLost);

  // Also requests the stop of a joint hold that contains this one. It waits for no code, so a
  // JointHoldState may be destroyed at any time.
  void FireToo(Signal signal, const std::shared_ptr<std::stop_source>& joint);

 private:
  using Joint = std::vector<std::weak_ptr<std::stop_source>>;
  struct Listeners {
    std::stop_source source = std::stop_source(std::nostopstate);
    std::shared_ptr<const Joint> joint = nullptr;
  };
  Listeners& ListenersOf(Signal signal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const base::ForkGuard fork_guard_;
  base::Atomic<int64_t> deadline_;
  base::Mutex mu_;
  base::Atomic<int16_t> acked_by_{0};
  bool is_lost_ ABSL_GUARDED_BY(mu_) = false;
  bool is_told_ ABSL_GUARDED_BY(mu_) = false;
  bool is_wanted_ ABSL_GUARDED_BY(mu_) = false;
  // One for each signal; created on first access.
  std::unique_ptr<std::array<Listeners, 2>> listeners_ ABSL_GUARDED_BY(mu_);
};

// The state of a hold that consists of several. It is valid until the first of them ends, and lost
// or wanted when the first of them is. Thread-safe.
class JointHoldState final : public HoldState {
 public:
  struct Part {
    std::string name;
    FencingToken token;
    std::shared_ptr<HoldState> view;
  };

  explicit JointHoldState(std::vector<Part> parts);

  base::Instant Deadline() const override;
  std::stop_token Lost(base::Instant now) override;
  // The token has no state if no part is told of waiters.
  std::stop_token Wanted() override;
  int acked_by() const override;  // the fewest of all parts
  // Returns nothing if no part has that name, or several have.
  std::optional<FencingToken> TokenOf(std::string_view name) const override;

 private:
  const std::vector<Part> parts_;
  const std::shared_ptr<std::stop_source> lost_ = std::make_shared<std::stop_source>();
  std::shared_ptr<std::stop_source> wanted_;  // null if no part is told of waiters
};

// Releases and extends the hold of a lease: a lock of one server group, or of several. Thread-safe.
// In a forked child, calls are refused or do nothing.
class HoldOwner {
 public:
  virtual ~HoldOwner() = default;

  // kFailedPrecondition in a forked child.
  virtual absl::Status Refusal() const = 0;
  // Implement the calls of Lease. `token` is for the observer, if the hold was lost.
  virtual absl::Status Release(uint64_t hold, FencingToken token) = 0;
  virtual absl::Status Extend(uint64_t hold, absl::Duration lease) = 0;
  virtual absl::Status StayTaken(uint64_t hold, absl::Duration at_least) = 0;
  // Release() without a caller that waits for the outcome.
  virtual void ReleaseQuietly(uint64_t hold, FencingToken token) = 0;

  // Starts Release() and returns. `then` turns the outcome into a completion, which runs where the
  // user wants. The operation does not keep this object alive.
  using Then = absl::AnyInvocable<absl::AnyInvocable<void() &&>(absl::Status) &&>;
  virtual void ReleaseAsync(uint64_t hold, FencingToken token, Then then) = 0;
  // Runs the completion where the user wants.
  virtual void Tell(absl::AnyInvocable<void() &&> completion) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_HOLD_STATE_H_
