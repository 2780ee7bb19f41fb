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
  Sent(size_t count, AllDone then) : answers(count) {
    exchange.results = absl::MakeSpan(answers);
    exchange.done = [this, then = std::move(then)] {
      const std::unique_ptr<Sent> self(this);
      then(absl::MakeSpan(answers));
    };
  }

  absl::InlinedVector<absl::StatusOr<Reply>, 1> answers;
  Exchange exchange;
};

absl::Status SharedConnection::Send(const Command& command, Done done) {
  const auto commands = absl::MakeConstSpan(&command, 1);
  if (!done) return PostFor(commands, nullptr);
  return SendAll(commands, [done = std::move(done)](absl::Span<absl::StatusOr<Reply>> answers) {
    done(std::move(answers[0]));
  });
}

absl::Status SharedConnection::SendAll(absl::Span<const Command> commands, AllDone done) {
  auto sent = std::make_unique<Sent>(commands.size(), std::move(done));
  absl::Status status = PostFor(commands, &sent->exchange);
  if (status.ok()) static_cast<void>(sent.release());  // it goes with its answers
  return status;
}

absl::Status SharedConnection::Post(absl::Span<const Command> commands, Exchange& exchange) {
  return PostFor(commands, &exchange);
}

absl::Status SharedConnection::Begin(absl::Span<const Command> commands, Exchange& mine) {
  mine.away = true;
  mine.at = this;
  return PostFor(commands, &mine);
}

void SharedConnection::FinishMine(Exchange& mine, base::Instant deadline) noexcept {
  bool open = false;
  bool leading = false;
  mine.begun = base::Now();
  {
    const base::MutexLock lock(mu_);
    mine.away = false;
    open = mine.open > 0;
    leading = open && leader_ == nullptr;
    if (leading) leader_ = &mine;
  }
  if (!open) {
    // Whoever has read the answer says so, and is done with the exchange.
    mine.parker.ParkUntil(base::Instant::Infinite());
  } else if (leading || Follow(mine, deadline)) {
    Lead(mine, deadline);
  }
}

bool SharedConnection::LeaveMine(Exchange& mine, std::function<void()> done) noexcept {
  {
    const base::MutexLock lock(mu_);
    mine.away = false;
    if (mine.open > 0) {
      mine.done = std::move(done);
      ++untold_;
      return true;
    }
  }
  mine.parker.ParkUntil(base::Instant::Infinite());  // as in FinishMine()
  return false;
}

absl::Status SharedConnection::PostFor(absl::Span<const Command> commands,
                                       Exchange* exchange) noexcept {
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
      if (exchange != nullptr && !exchange->waits()) ++untold_;
      pipeline_.Append(commands, exchange);
      has_unsent_.store(true, std::memory_order_release);
    }
    const bool unhurried = exchange != nullptr && exchange->unhurried;
    if (leader_ == nullptr && !unhurried) {
      write_wants_ = Interest::kNone;  // nobody has looked for room since
      // What is written soon after an answer is checked as it is written.
      Write();
    } else if (leader_sleeps_) {
      Write();
    }
    // A connection that turns out to be broken is found out now: nobody may come soon.
    const bool to_be_read = pipeline_.size() >= kMostUnreadReplies || !doomed_.empty();
    if (leader_ != nullptr || !to_be_read) return status;
    leader_ = &drain;
  }
  Lead(drain, kAtOnce);
  return status;
}

bool SharedConnection::Drain(base::Instant until) noexcept {
  if (fork_guard_.InForkedChild()) return true;
  Exchange drain;
  drain.begun = base::Now();
  bool leading = false;
  {
    const base::MutexLock lock(mu_);
    leading = leader_ == nullptr && connected_ && pipeline_.size() > 0;
    if (leading) {
      leader_ = &drain;
      write_wants_ = Interest::kNone;  // nobody has looked for room since
    }
  }
  if (leading) Lead(drain, until);
  return untold_ == 0;
}

Transport::Polled SharedConnection::BeginPoll() {
  if (fork_guard_.InForkedChild()) return {};
  const base::MutexLock lock(mu_);
  return connected_ && leader_ == nullptr ? transport_->BeginPoll(read_wants_ | write_wants_)
                                          : Transport::Polled();
}

}  // namespace redlatch::redis
