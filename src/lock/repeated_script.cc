#include "src/lock/repeated_script.h"

#include <algorithm>

#include "absl/status/status.h"
#include "src/lock/client_core.h"

namespace redlatch::internal {
namespace {

// Waits this much longer for the reply to a script that was sent in time.
constexpr absl::Duration kGrace = absl::Milliseconds(5);

}  // namespace

bool RepeatedScript::Step(unsigned events, base::Instant now) {
  if ((events & (kStopped | kEnding | kOver)) != 0) {
    return End(absl::CancelledError("the wait was stopped"));
  }
  if (reply_ != nullptr && reply_->HasArrived()) {
    const Failed* const failed = reply_->ran.failed();
    absl::StatusOr<redis::Reply> reply;
    if (failed != nullptr) {
      reply = failed->why;
    } else {
      reply = redis::Reply{.type = redis::Reply::Type::kString,
                           .text = std::move(std::get<ScriptText>(reply_->ran.what).text)};
    }
    reply_.reset();
    try_at_ = now + backoff_.Next();
    if (!absl::IsUnavailable(reply.status()) || call_.until <= try_at_)
      return End(std::move(reply));
  }
  if (reply_ != nullptr && due() <= now) {
    return End(absl::UnavailableError("the server did not answer in time"));
  }
  if (reply_ == nullptr && try_at_ <= now) {
    reply_ = call_.attempt(*this);
  }
  return true;
}

base::Instant RepeatedScript::due() const {
  return reply_ == nullptr ? try_at_ : call_.until + kGrace;
}

bool RepeatedScript::End(absl::StatusOr<redis::Reply> reply) {
  reply_.reset();
  auto tell = [then = std::move(call_.then), reply = std::move(reply)]() mutable {
    std::move(then)(std::move(reply));
  };
  driver_.Complete(std::move(tell), EventDriver::Whose::kOwn);
  return false;
}

}  // namespace redlatch::internal
