#include "redlatch/lease.h"

#include <memory>
#include <optional>
#include <utility>

#include "src/base/clock.h"
#include "src/base/thread.h"
#include "src/lock/state/hold_owner.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/users_code.h"

namespace redlatch {

Hold::Hold(std::shared_ptr<internal::HoldState> view, FencingToken token)
    : view_(std::move(view)), token_(token) {}

// If another thread forks in the midst of it, the child that destroys it again finds nothing.
Hold::~Hold() { view_.reset(); }

bool Hold::valid() const { return view_ != nullptr && view_->Valid(base::Now()); }

absl::Duration Hold::remaining() const {
  return view_ == nullptr ? absl::ZeroDuration() : base::Until(view_->Deadline());
}

int Hold::acked_by() const { return view_ == nullptr ? 0 : view_->acked_by(); }

FencingToken Hold::fencing_token(std::string_view name) const {
  const auto its = view_ == nullptr ? std::nullopt : view_->TokenOf(name);
  return its ? *its : token_;
}

std::stop_token Hold::lost() const {
  return view_ == nullptr ? std::stop_token() : view_->Lost(base::Now());
}

Lease::Lease(std::shared_ptr<internal::HoldOwner> holder, uint64_t id,
             std::shared_ptr<internal::HoldState> view, FencingToken token)
    : Hold(std::move(view), token), holder_(std::move(holder)), id_(id), state_(State::kHeld) {}

Lease::Lease(Lease&& other) noexcept
    : Hold(std::exchange(static_cast<Hold&>(other), Hold())),
      holder_(std::move(other.holder_)),
      id_(other.id_),
      state_(other.state_.exchange(State::kReleased)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  End();
  static_cast<Hold&>(*this) = std::exchange(static_cast<Hold&>(other), Hold());
  holder_ = std::move(other.holder_);
  id_ = other.id_;
  state_ = other.state_.exchange(State::kReleased);
  return *this;
}

Lease::~Lease() { End(); }

void Lease::End() noexcept {
  if (holder_ != nullptr && state_ == State::kHeld) holder_->ReleaseQuietly(id_, fencing_token());
  holder_.reset();
}

absl::Status Lease::Release() {
  // In a forked child, the thread that is at it may not be there.
  if (holder_ != nullptr) {
    if (absl::Status refused = holder_->Refusal(); !refused.ok()) return refused;
  }
  State held = State::kHeld;
  while (!state_.compare_exchange_strong(held, State::kReleasing)) {
    if (held == State::kReleased) return absl::OkStatus();
    if (held == State::kLost) {
      return absl::AbortedError("the hold was lost before it was released");
    }
    state_.wait(State::kReleasing);  // another thread is at it
    held = State::kHeld;
  }
  absl::Status status = holder_->Release(id_, fencing_token());
  if (status.ok()) {
    state_ = State::kReleased;
  } else {
    state_ = absl::IsAborted(status) ? State::kLost : State::kHeld;
  }
  state_.notify_all();
  return status;
}

void Lease::ReleaseAsync(ReleaseCallback callback) {
  callback = internal::NotNull(std::move(callback));
  if (holder_ == nullptr) {  // there is no client to say where it runs
    base::RunApart(
        "redlatch-async", [told = std::make_shared<ReleaseCallback>(std::move(callback))] {
          internal::RunUsersCode("a callback", [&] { (std::move(*told))(absl::OkStatus()); });
        });
    return;
  }
  const auto tell = [](ReleaseCallback told, absl::Status status) {
    return [told = std::move(told), status = std::move(status)]() mutable {
      std::move(told)(std::move(status));
    };
  };
  const std::shared_ptr<internal::HoldOwner> holder =
      holder_;  // the callback may destroy the lease
  absl::Status known = holder->Refusal();
  const State before = Take();
  if (known.ok() && before == State::kLost) {
    known = absl::AbortedError("the hold was lost before it was released");
  }
  if (!known.ok() || before != State::kHeld) {
    return holder->Tell(tell(std::move(callback), std::move(known)));
  }
  holder->ReleaseAsync(id_, fencing_token(),
                       [tell, callback = std::move(callback)](absl::Status status) mutable {
                         return tell(std::move(callback), std::move(status));
                       });
}

Lease Lease::GiveAway() {
  const State before = Take();
  Lease its;
  static_cast<Hold&>(its) = *this;
  its.holder_ = holder_;
  its.id_ = id_;
  its.state_ = before == State::kReleasing ? State::kReleased : before;
  return its;
}

absl::Status Lease::Extend(absl::Duration lease) {
  if (holder_ == nullptr) return absl::FailedPreconditionError("an empty Lease cannot be extended");
  return holder_->Extend(id_, lease);
}

}  // namespace redlatch
