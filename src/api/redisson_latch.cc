#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "redlatch/redisson/count_down_latch.h"
#include "redlatch/status.h"
#include "src/api/outcomes.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/error_address.h"
#include "src/base/utf8.h"
#include "src/lock/client_core.h"
#include "src/lock/kinds.h"
#include "src/lock/lock_handle.h"
#include "src/lock/state/script_operation.h"
#include "src/lock/state/timing.h"
#include "src/lock/users_code.h"

namespace redlatch::redisson {
namespace {

namespace kinds = internal::kinds;

internal::LockType LatchType() {
  return {.scripts = {.acquire = lua::kRedissonLatchAcquire, .cancel = lua::kRedissonLatchCancel},
          .traits = {.kind = kinds::kRedissonLatch},
          .use = internal::GrantUse::kLatch,
          .noun = "latch",
          .busy = "it has not opened",
          .keys = internal::KeyNames(kinds::kRedissonKeys.in_keys,
                                     {std::string(kinds::kReadersSuffix)})};
}

}  // namespace

// What a latch object does. A call that is in progress keeps it.
struct CountDownLatch::Body {
  Body(std::shared_ptr<internal::ClientCore> its_core, std::string_view its_name)
      : core(std::move(its_core)), name(its_name) {}

  absl::StatusOr<std::shared_ptr<internal::LockHandle>> Handle() const {
    if (core->is_cluster() && absl::StrContains(core->options().key_prefix + name, '{')) {
      return base::WithAddress(absl::InvalidArgumentError(
          absl::StrCat("latch ", base::Quoted(name), ": CROSSSLOT: with a { in its name, Redisson ",
                       "uses a channel in another slot of the cluster; leave the braces out")));
    }
    return internal::LockHandle::Attach(core, name, {}, LatchType());
  }
  internal::AcquireCall CallOf(const LatchWaitOptions& options) const {
    return {.terms = {.lease = absl::Seconds(30)},
            .wait = options.wait,
            .stop = options.stop,
            .options = std::make_shared<const LockOptions>(),
            .object = this,
            .gone = &gone};
  }
  // Runs redisson_latch/count until a server has answered; it has an effect once.
  absl::StatusOr<std::string> Count(const std::string& how, int64_t number) const;

  const std::shared_ptr<internal::ClientCore> core;
  const std::string name;
  base::Atomic<bool> gone{false};  // the object was destroyed
};

absl::StatusOr<std::string> CountDownLatch::Body::Count(const std::string& how,
                                                        int64_t number) const {
  if (number < 0) {
    return base::WithAddress(absl::InvalidArgumentError(absl::StrCat(
        "latch ", base::Quoted(name), ": the count ", number, " must not be negative")));
  }
  const auto handle = Handle();
  if (!handle.ok()) return handle.status();
  std::string once = core->FreshId();
  once[once.find(':')] = '.';  // in a key, the suffix is what follows the last colon
  const absl::Duration repeats = core->options().unreachable_after + internal::kAnswerGrace;
  const int64_t repeats_ms = absl::ToInt64Milliseconds(repeats + core->command_timeout());
  std::vector<std::string> args = {how, absl::StrCat(number), absl::StrCat(repeats_ms)};
  return (*handle)->RunUntilAnswered(
      {.script = &lua::kRedissonLatchCount,
       .args = [&args](int) { return args; },
       .own_key = absl::StrCat(std::string(kinds::kRedissonCountedSuffix), once),
       .until = base::Now() + repeats,
       .command_timeout = core->command_timeout()},
      {}, &gone);
}

CountDownLatch::CountDownLatch(const Client& client, std::string_view name)
    : body_(std::make_shared<Body>(client.core(), name)) {}

CountDownLatch::~CountDownLatch() {
  if (body_->core->in_forked_child()) return;
  body_->gone = true;
  body_->core->StopAll(body_->name, body_.get());  // its calls that wait end
}

const std::string& CountDownLatch::name() const { return body_->name; }

absl::StatusOr<bool> CountDownLatch::TrySetCount(int64_t count) {
  const absl::StatusOr<std::string> reply = std::shared_ptr<Body>(body_)->Count("set", count);
  if (!reply.ok()) return reply.status();
  return reply->ends_with("set");
}

absl::Status CountDownLatch::CountDown(int64_t n) {
  return std::shared_ptr<Body>(body_)->Count("down", n).status();
}

absl::StatusOr<int64_t> CountDownLatch::Count() {
  return ReadCount(std::shared_ptr<Body>(body_)->Count("count", 0));
}

absl::Status CountDownLatch::Wait(const LatchWaitOptions& options) {
  const std::shared_ptr<Body> body = body_;
  const auto handle = body->Handle();
  return handle.ok() ? (*handle)->Acquire(body->CallOf(options)).status() : handle.status();
}

void CountDownLatch::WaitAsync(const LatchWaitOptions& options, WaitCallback callback) {
  auto finish =
      FinishOf([](const absl::StatusOr<internal::OwnedHold>& open) { return open.status(); },
               std::move(callback));
  const auto handle = body_->Handle();
  if (!handle.ok()) return body_->core->event_driver().Complete(std::move(finish)(handle.status()));
  (*handle)->AcquireAsync(body_->CallOf(options), std::move(finish));
}

void CountDownLatch::count_down(std::ptrdiff_t n) { ThrowIfFailed(CountDown(n)); }
void CountDownLatch::wait() { ThrowIfFailed(Wait()); }
bool CountDownLatch::WaitFor(absl::Duration wait) { return ThrowUnlessBusy(Wait({.wait = wait})); }

}  // namespace redlatch::redisson
