#include "redlatch/lease.h"

#include <memory>
#include <optional>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error_address.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/users_code.h"

namespace redlatch {

Hold::Hold(std::shared_ptr<internal::HoldState> state, FencingToken token)
    : state_(std::move(state)), token_(token) {}

// If another thread forks during this, the child that destroys the hold again finds nothing.
Hold::~Hold() { state_.reset(); }

bool Hold::valid() const { return state_ != nullptr && state_->Valid(base::Now()); }

absl::Duration Hold::remaining() const {
  return state_ == nullptr ? absl::ZeroDuration() : base::Until(state_->Deadline());
}

int Hold::acked_by() const { return state_ == nullptr ? 0 : state_->acked_by(); }

FencingToken Hold::fencing_token(std::string_view name) const {
  const auto its = state_ == nullptr ? std::nullopt : state_->TokenOf(name);
  return its ? *its : token_;
}

std::stop_token Hold::lost() const {
  return state_ == nullptr ? std::stop_token() : state_->Lost(base::Now());
}

std::stop_token Hold::wanted() const {
  return state_ == nullptr ? std::stop_token() : state_->Wanted();
}

Lease::Lease(std::shared_ptr<internal::HoldOwner> owner, uint64_t id, Hold hold)
    : hold_(std::move(hold)), owner_(std::move(owner)), id_(id), state_(State::kHeld) {}

Lease::Lease(Lease&& other) noexcept
    : hold_(std::exchange(other.hold_, Hold())),
      owner_(std::move(other.owner_)),
      id_(other.id_),
      state_(other.state_.exchange(State::kReleased)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  End();
  hold_ = std::exchange(other.hold_, Hold());
  owner_ = std::move(other.owner_);
  id_ = other.id_;
  state_ = other.state_.exchange(State::kReleased);
  return *this;
}

Lease::~Lease() { End(); }

void Lease::End() noexcept {
  if (owner_ != nullptr && state_ == State::kHeld) owner_->ReleaseQuietly(id_, fencing_token());
  owner_.reset();
}

Lease::State Lease::Take() {
  State before = State::kHeld;
  state_.compare_exchange_strong(before, State::kReleased);
  return before;
}

absl::Status Lease::Release() {
  // In a forked child, the thread that is releasing it may not exist.
  if (owner_ != nullptr) {
    if (absl::Status refused = owner_->Refusal(); !refused.ok()) return refused;
  }
  State held = State::kHeld;
  while (!state_.compare_exchange_strong(held, State::kReleasing)) {
    if (held == State::kReleased) return absl::OkStatus();
    if (held == State::kLost) {
      return base::WithAddress(absl::AbortedError("the hold was lost before it was released"));
    }
    state_.wait(State::kReleasing);  // for the thread that is releasing it
    held = State::kHeld;
  }
  absl::Status status = owner_->Release(id_, fencing_token());
  if (status.ok()) {
    state_ = State::kReleased;
  } else {
    state_ = absl::IsAborted(status) ? State::kLost : State::kHeld;
  }
  state_.notify_all();
  return status;
}

void Lease::ReleaseAsync(ReleaseCallback callback) {
  struct Told {
    ReleaseCallback callback;
    absl::Status status;
  };
  // Allocated here, since the callback must not get lost.
  auto told = std::make_unique<Told>(Told{internal::NotNull(std::move(callback)), {}});
  auto tell = [its = std::move(told)](absl::Status status) mutable {
    its->status = std::move(status);
    return [its = std::move(its)] { std::move(its->callback)(std::move(its->status)); };
  };
  if (owner_ == nullptr) {  // no client says where callbacks run
    return internal::RunCallbackApart(tell(absl::OkStatus()));
  }
  // The callback may destroy the lease.
  const std::shared_ptr<internal::HoldOwner> owner = owner_;
  absl::Status known = owner->Refusal();
  const State before = Take();
  if (known.ok() && before == State::kLost) {
    known = base::WithAddress(absl::AbortedError("the hold was lost before it was released"));
  }
  if (!known.ok() || before != State::kHeld) {
    return owner->Tell(tell(std::move(known)));
  }
  owner->ReleaseAsync(id_, fencing_token(), std::move(tell));
}

Lease Lease::GiveAway() {
  const State before = Take();
  Lease its(owner_, id_, hold_);
  its.state_ = before == State::kReleasing ? State::kReleased : before;
  return its;
}

absl::Status Lease::Extend(Duration lease) {
  if (owner_ == nullptr) {
    return base::WithAddress(absl::FailedPreconditionError("an empty Lease cannot be extended"));
  }
  return owner_->Extend(id_, lease);
}

absl::Status Lease::StayTaken(Duration at_least) {
  if (owner_ == nullptr) {
    return base::WithAddress(absl::FailedPreconditionError("an empty Lease cannot stay taken"));
  }
  return owner_->StayTaken(id_, at_least);
}

}  // namespace redlatch
