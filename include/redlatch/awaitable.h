// co_await for the asynchronous calls, from any C++20 coroutine.
#ifndef REDLATCH_AWAITABLE_H_
#define REDLATCH_AWAITABLE_H_

#include <atomic>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace redlatch {

namespace internal {

// A reference to an option's value that is given within the braces of a call.
template <class Value>
class Given {
 public:
  Given() = default;
  Given(const Value& value) : value_(&value) {}  // NOLINT(google-explicit-constructor)
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator Value() const { return value_ == nullptr ? Value() : *value_; }

 private:
  const Value* value_ = nullptr;
};

// An awaitable call takes its options as a variable, or as a view, which needs no destructor.
template <class From, class Options>
concept AwaitableAs = std::is_convertible_v<From, Options> &&
    (std::is_lvalue_reference_v<From> || std::is_trivially_destructible_v<From>);

}  // namespace internal

// What AcquireAwaitable() and its kin return: an asynchronous call that begins when a coroutine
// awaits it, once.
//
//   absl::StatusOr<redlatch::Lease> lease = co_await lock.AcquireAwaitable(options);
//
// The coroutine goes on where callbacks run: in what ClientOptions::post is given, else on the
// client's own thread, which must not be kept for long. It needs nothing of the coroutine's type
// but that this passes an awaitable on unchanged; where one does not (boost::asio::awaitable), use
// the call with a callback.
//
// A coroutine may be destroyed while it is suspended here: then the call is cancelled, and what it
// may still bring is given back. Destroy it where it would go on, or when nothing can make it go
// on: as for any coroutine, not while another thread resumes it. If the completion is dropped
// because the event loop has ended, it never goes on.
//
// Give the options in braces, or as a variable. A temporary AcquireOptions does not
// compile, because GCC 12 destroys the members of a temporary aggregate in a co_await expression
// twice.
//
//   co_await lock.AcquireAwaitable({.wait = absl::Seconds(5), .stop = source.get_token()});
//
//   const redlatch::AcquireOptions options = {.stop = source.get_token()};
//   co_await lock.AcquireAwaitable(options);
//
// Neither the lock nor the client need outlive it once it is suspended; if they go, it goes on with
// kCancelled. Awaited after they are gone, it is an error.
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
    if (call_ != nullptr && call_->phase.exchange(Phase::kDropped) == Phase::kWaits) {
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
    // It may go on, and this be gone, before that returns.
    std::move(start)(call->own.get_token(), [call](Result result) {
      call->by_caller.reset();
      call->result.emplace(std::move(result));
      if (call->phase.exchange(Phase::kGoesOn) == Phase::kWaits) {
        call->coroutine.resume();
      } else {
        call->result.reset();
      }
    });
  }
  Result await_resume() { return *std::move(call_->result); }

 private:
  enum class Phase : unsigned char { kWaits, kGoesOn, kDropped };
  struct Stop {
    std::stop_source* own;
    void operator()() const { own->request_stop(); }
  };
  struct Call {
    std::atomic<Phase> phase{Phase::kWaits};
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
