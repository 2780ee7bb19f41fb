// Commands that nobody waits for.
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/redis/link/shared_connection.h"

namespace redlatch::redis {
namespace {

constexpr size_t kMostUnreadReplies = 1024;  // of commands that nobody waits for

}  // namespace

// Commands whose answers are given to a function.
struct SharedConnection::Sent {
  Sent(size_t count, AllDone then, std::atomic<size_t>& untold) : answers(count) {
    exchange.results = absl::MakeSpan(answers);
    exchange.done = [this, then = std::move(then), &untold] {
      const std::unique_ptr<Sent> self(this);
      then(absl::MakeSpan(answers));
      --untold;
    };
  }

  absl::InlinedVector<absl::StatusOr<Reply>, 1> answers;
  Exchange exchange;
};

absl::Status SharedConnection::Send(const Command& command, Done done) {
  std::unique_ptr<Sent> sent;
  if (done) {
    sent = std::make_unique<Sent>(
        1,
        [done = std::move(done)](absl::Span<absl::StatusOr<Reply>> answers) {
          done(std::move(answers[0]));
        },
        untold_);
  }
  return Post(absl::MakeConstSpan(&command, 1), std::move(sent));
}

absl::Status SharedConnection::SendAll(absl::Span<const Command> commands, AllDone done) {
  return Post(commands, std::make_unique<Sent>(commands.size(), std::move(done), untold_));
}

absl::Status SharedConnection::Post(absl::Span<const Command> commands,
                                    std::unique_ptr<Sent> sent) {
  absl::Status status = Refusal();
  if (!status.ok()) return status;
  Exchange drain;  // waits for nothing, and reads what is there
  drain.begun = base::Now();
  {
    const base::MutexLock lock(mu_);
    if (!connected_) {
      return absl::UnavailableError(absl::StrCat("not sent to ", server_, ": not connected"));
    }
    if (pipeline_.unsent_bytes() > options_.backlog_bytes) {
      status = absl::UnavailableError(
          absl::StrCat("not sent to ", server_, ": it does not keep up with the commands"));
    } else {
      if (sent != nullptr) ++untold_;
      pipeline_.Append(commands, sent != nullptr ? &sent.release()->exchange : nullptr);
      has_unsent_.store(true, std::memory_order_release);
    }
    if (leader_ == nullptr) write_wants_ = Interest::kNone;  // nobody has looked for room since
    if (leader_ == nullptr || leader_sleeps_) VerifyAndWrite();
    if (leader_ != nullptr || pipeline_.size() < kMostUnreadReplies) return status;
    leader_ = &drain;
  }
  Lead(drain, kAtOnce);
  return status;
}

bool SharedConnection::Drain(base::Instant until) {
  if (fork_guard_.InForkedChild()) return true;
  Exchange drain;
  drain.begun = base::Now();
  bool leading = false;
  {
    const base::MutexLock lock(mu_);
    leading = leader_ == nullptr && connected_ && pipeline_.size() > 0;
    if (leading) leader_ = &drain;
  }
  if (leading) Lead(drain, until);
  return untold_ == 0;
}

Transport::Polled SharedConnection::BeginPoll() {
  if (fork_guard_.InForkedChild()) return {};
  const base::MutexLock lock(mu_);
  return connected_ && leader_ == nullptr ? transport_->BeginPoll(read_wants_)
                                          : Transport::Polled();
}

}  // namespace redlatch::redis
