#include "redlatch/lease.h"

#include <utility>

#include "src/engine/handle.h"

namespace redlatch {

Hold::Hold(std::shared_ptr<engine::Handle> handle, uint64_t id, FencingToken token)
    : handle_(std::move(handle)), id_(id), token_(token) {}

bool Hold::valid() const { return handle_ != nullptr && handle_->Valid(id_); }

absl::Duration Hold::remaining() const {
  return handle_ == nullptr ? absl::ZeroDuration() : handle_->Remaining(id_);
}

std::stop_token Hold::lost() const {
  return handle_ == nullptr ? std::stop_token() : handle_->Lost(id_);
}

Lease::Lease(std::shared_ptr<engine::Handle> handle, uint64_t id, FencingToken token)
    : Hold(std::move(handle), id, token), state_(State::kHeld) {}

Lease::Lease(Lease&& other) noexcept
    : Hold(std::exchange(static_cast<Hold&>(other), Hold())),
      state_(other.state_.exchange(State::kReleased)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  End();
  static_cast<Hold&>(*this) = std::exchange(static_cast<Hold&>(other), Hold());
  state_ = other.state_.exchange(State::kReleased);
  return *this;
}

Lease::~Lease() { End(); }

void Lease::End() noexcept {
  if (handle_ == nullptr || absl::IsUnavailable(Release())) {
    if (handle_ != nullptr) handle_->Forget(id_);
  }
  handle_.reset();
}

absl::Status Lease::Release() {
  // In a forked child, the thread that is at it may not be there.
  if (handle_ != nullptr) {
    if (absl::Status refused = handle_->Refusal(); !refused.ok()) return refused;
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
  absl::Status status = handle_->Release(id_);
  if (status.ok()) {
    state_ = State::kReleased;
  } else {
    state_ = absl::IsAborted(status) ? State::kLost : State::kHeld;
  }
  state_.notify_all();
  return status;
}

absl::Status Lease::Extend(absl::Duration lease) {
  if (handle_ == nullptr) return absl::FailedPreconditionError("an empty Lease cannot be extended");
  return handle_->Extend(id_, lease);
}

}  // namespace redlatch
