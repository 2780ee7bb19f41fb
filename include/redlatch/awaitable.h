// co_await for the asynchronous calls, from any C++20 coroutine.
#ifndef REDLATCH_AWAITABLE_H_
#define REDLATCH_AWAITABLE_H_

#include "redlatch/export.h"
// That comes first, because <coroutine> has a less helpful message if the language is not C++20.
#include <atomic>
#include <coroutine>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace redlatch {

// An asynchronous call, which begins when a coroutine awaits it. It can be awaited once. It is the
// result of AcquireAwaitable() and similar methods.
//
//   absl::StatusOr<redlatch::Lease> lease = co_await lock.AcquireAwaitable({.wait = 5s});
//
//   the coroutine                         the call
//   awaits                                begins
//   is destroyed while it is suspended    is cancelled; a result that still comes is given back
//   is never resumed: its loop has ended  its result is given back
//
// The coroutine continues where callbacks run: where ClientOptions::post says, or else on the
// client's own thread, which it must not block for long. You can use any coroutine type that passes
// an awaitable on unchanged. For others, such as boost::asio::awaitable, use the call with a
// callback. Destroy a coroutine on the thread where it would continue, or when nothing can resume
// it, but not while another thread resumes it.
//
// Write options in braces, or pass a variable; a temporary AcquireOptions does not compile. Neither
// the lock nor the client needs to outlive the suspended coroutine: if one of them is destroyed,
// the coroutine continues with kCancelled. It is an error to await a call after they are gone.
template <class Result>
class [[nodiscard]] Awaitable {
 public:
  using Callback = absl::AnyInvocable<void(Result) &&>;
  using Start = absl::AnyInvocable<void(std::stop_token, Callback) &&>;

  // For the library. `start` begins the call, which `stop` may cancel.
  Awaitable(std::stop_token stop, Start start) : stop_(std::move(stop)), start_(std::move(start)) {}
  Awaitable(Awaitable&&) noexcept = default;
  Awaitable& operator=(Awaitable&&) = delete;
  ~Awaitable() {
    if (call_ != nullptr && call_->phase.exchange(Phase::kDropped) == Phase::kWaiting) {
      call_->own.request_stop();
    }
  }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) {
    const std::shared_ptr<Call> call = std::make_shared<Call>();
    call->coroutine = coroutine;
    if (stop_.stop_possible()) call->by_caller.emplace(stop_, Stop{&call->own});
    call_ = call;
    Start start = std::move(start_);
    // The coroutine may continue, and this object may be gone, before that returns.
    std::move(start)(call->own.get_token(), [call](Result result) {
      call->by_caller.reset();
      call->result.emplace(std::move(result));
      if (call->phase.exchange(Phase::kResumed) == Phase::kWaiting) {
        call->coroutine.resume();
      } else {
        call->result.reset();
      }
    });
  }
  Result await_resume() { return *std::move(call_->result); }

 private:
  enum class Phase : unsigned char { kWaiting, kResumed, kDropped };
  struct Stop {
    std::stop_source* own;
    void operator()() const { own->request_stop(); }
  };
  struct Call {
    std::atomic<Phase> phase{Phase::kWaiting};
    std::coroutine_handle<> coroutine;
    std::stop_source own;
    std::optional<std::stop_callback<Stop>> by_caller;
    std::optional<Result> result;
  };

  std::stop_token stop_;
  Start start_;
  std::shared_ptr<Call> call_;
};

}  // namespace redlatch

#endif  // REDLATCH_AWAITABLE_H_
