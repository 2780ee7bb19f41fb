#include "src/redis/channel.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/errors.h"

namespace redlatch::redis {
namespace {

constexpr size_t kReadSize = size_t{64} << 10;
constexpr base::Instant kAtOnce;  // a deadline: what is there, without waiting
constexpr absl::Duration kIdle = absl::Milliseconds(5);  // the connection may have ended
constexpr size_t kMostUnreadReplies = 1024;              // of commands that nobody waits for

}  // namespace

Channel::Channel(const Url& url, ChannelOptions options)
    : options_(std::move(options)),
      server_(url.DebugString()),
      backoff_(options_.first_backoff, options_.longest_backoff),
      spin_(options_.spin),
      connector_(url, Handshake::Purpose::kCommands, options_.open),
      buffer_(std::make_unique<char[]>(kReadSize)) {}

Channel::~Channel() = default;

absl::Status Channel::Refusal() const {
  if (fork_guard_.InForkedChild()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the connection to ", server_,
                     " belongs to the process that forked this one; connect anew after fork()"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Reply> Channel::Call(const Command& command, base::Instant deadline) {
  absl::StatusOr<Reply> result;
  CallBatch(absl::MakeConstSpan(&command, 1), deadline, absl::MakeSpan(&result, 1));
  return result;
}

void Channel::CallBatch(absl::Span<const Command> commands, base::Instant deadline,
                        absl::Span<absl::StatusOr<Reply>> results) {
  Exchange mine;
  mine.results = results;
  Run(commands, mine, deadline);
}

absl::Status Channel::Connect(base::Instant deadline) {
  const Command ping{"PING"};
  absl::StatusOr<Reply> result;
  Exchange mine;
  mine.results = absl::MakeSpan(&result, 1);
  mine.fail_fast = true;
  Run(absl::MakeConstSpan(&ping, 1), mine, deadline);
  if (result.ok() && result->is_error()) return ErrorStatus(result->text, server_);
  return result.status();
}

void Channel::Run(absl::Span<const Command> commands, Exchange& mine, base::Instant deadline) {
  absl::Status refused = Refusal();
  bool leading = false;
  mine.begun = base::Now();
  if (refused.ok() && deadline <= mine.begun) {
    refused = absl::UnavailableError(
        absl::StrCat("no time was left to ask ", server_, " (the command was not sent)"));
  }
  if (commands.empty()) return;
  if (refused.ok()) {
    const base::MutexLock lock(mu_);
    // Where nobody leads, nobody sends what waits: whoever comes then is taken, and does it.
    if (leader_ != nullptr && pipeline_.unsent_bytes() > options_.backlog_bytes) {
      refused = absl::UnavailableError(absl::StrCat(server_,
                                                    " does not keep up: ", options_.backlog_bytes,
                                                    " bytes of commands wait to be sent"));
    } else {
      pipeline_.Append(commands, &mine);
      leading = leader_ == nullptr;
      if (leading) {
        leader_ = &mine;
      } else {
        has_unsent_.store(true, std::memory_order_release);
        if (leader_sleeps_) Write();
      }
    }
  }
  if (!refused.ok()) {
    std::fill(mine.results.begin(), mine.results.end(), refused);
    return;
  }
  if (leading || Follow(mine, deadline)) Lead(mine, deadline);
}

absl::Status Channel::Send(const Command& command) {
  absl::Status status = Refusal();
  if (!status.ok()) return status;
  Exchange drain;  // waits for nothing, and reads what is there
  {
    const base::MutexLock lock(mu_);
    if (!connected_) {
      return absl::UnavailableError(absl::StrCat("not sent to ", server_, ": not connected"));
    }
    if (pipeline_.unsent_bytes() > options_.backlog_bytes) {
      status = absl::UnavailableError(
          absl::StrCat("not sent to ", server_, ": it does not keep up with the commands"));
    } else {
      pipeline_.Append(absl::MakeConstSpan(&command, 1), nullptr);
      has_unsent_.store(true, std::memory_order_release);
    }
    if (leader_ == nullptr) write_blocked_ = false;  // nobody has looked for room since
    if (leader_ == nullptr || leader_sleeps_) Write();
    if (leader_ != nullptr || pipeline_.size() < kMostUnreadReplies) return status;
    leader_ = &drain;
  }
  Lead(drain, kAtOnce);
  return status;
}

bool Channel::Follow(Exchange& mine, base::Instant deadline) {
  if (const absl::Duration spin = spin_.Length(); spin > absl::ZeroDuration()) {
    const base::Instant until = std::min(deadline, base::Now() + spin);
    while (mine.parker.value() == base::Parker::kArmed && base::Now() < until) sched_yield();
  }
  for (;;) {
    switch (mine.parker.ParkUntil(deadline)) {
      case kDone:
        return false;
      case kLead:
        return true;
      default:
        break;
    }
    const base::MutexLock lock(mu_);
    if (mine.open > 0 && leader_ != &mine) {
      GiveUp(mine);
      return false;
    }
    // Decided under the lock, and the word that says so comes any moment.
    deadline = base::Instant::Infinite();
  }
}

void Channel::Lead(Exchange& mine, base::Instant deadline) {
  mine.parker.Arm();
  Finished finished;
  Exchange* next = nullptr;
  {
    const base::MutexLock lock(mu_);
    // A connection that was idle may have ended unnoticed. Seen before anything is sent, that
    // costs nobody anything.
    bool look_first = connected_ && mine.begun - progress_ > kIdle;
    do {
      if (std::exchange(look_first, false)) {
        Receive(mine, kAtOnce, finished);
      } else if (connected_) {
        GatherCrowd(mine, finished);
        Write();
        if (doomed_.empty()) Receive(mine, deadline, finished);
      } else {
        Reconnect(mine, deadline, finished);
      }
      if (!doomed_.empty()) Break(finished);
    } while (mine.open > 0 && base::Now() < deadline);
    if (mine.open > 0) {
      GiveUp(mine);
    } else if (mine.results.size() == 1 && mine.results[0].ok()) {
      spin_.Completed(mine.begun, base::Now());
    }
    if (!doomed_.empty()) Break(finished);
    next = pipeline_.FirstWaiting();
    leader_ = next;
    if (next == nullptr) Write();  // what was sent without waiting
  }
  // The others first in the queue go on first.
  if (next != nullptr) next->parker.Set(kLead);
  WakeFinished(mine, finished);
}

// The threads whose replies came with the last read are about to ask again: where there were
// several, they are let run first, and what they ask goes out in one write.
void Channel::GatherCrowd(const Exchange& mine, Finished& finished) {
  if (!spin_.GathersCrowd()) return;
  mu_.Unlock();
  WakeFinished(mine, finished);
  sched_yield();
  mu_.Lock();
}

void Channel::GiveUp(Exchange& mine) {
  ++stats_.late;
  const absl::Status unsent =
      connected_ || last_failure_.ok()
          ? absl::UnavailableError(
                absl::StrCat("the command could not be sent to ", server_, " in time"))
          : absl::Status(
                last_failure_.code(),
                absl::StrCat(std::string(last_failure_.message()),
                             " (the command was not sent; it was tried until the deadline)"));
  const bool sent = pipeline_.Abandon(
      mine,
      MarkMayHaveExecuted(absl::UnavailableError(absl::StrCat(
          server_, " did not answer in time (the command was sent and may have been executed)"))),
      unsent);
  if (sent && connected_ && base::Now() - progress_ >= options_.stall_timeout) {
    doomed_ = "it has not answered for " + absl::FormatDuration(options_.stall_timeout);
    InterruptLeader();
  }
}

void Channel::WakeFinished(const Exchange& mine, Finished& finished) {
  for (Exchange* exchange : finished) {
    if (exchange != &mine) exchange->parker.Set(kDone);
  }
  finished.clear();
}

void Channel::Reconnect(Exchange& mine, base::Instant deadline, Finished& finished) {
  const base::Instant next_attempt = next_attempt_;
  mu_.Unlock();
  WakeFinished(mine, finished);
  if (base::Now() < next_attempt) {
    mine.parker.ParkUntil(std::min(deadline, next_attempt));  // nobody wakes the leader
    mu_.Lock();
    return;
  }
  auto step = Attempt(deadline);
  mu_.Lock();
  if (!step.ok()) {
    last_failure_ = step.status();
    next_attempt_ = base::Now() + backoff_.Next();
    const bool lasting = !absl::IsUnavailable(step.status());
    pipeline_.FailUnsent(
        [&](const Exchange* each) { return lasting || each == nullptr || each->fail_fast; },
        step.status(), finished);
    return;
  }
  if (!step->has_value()) return;
  transport_ = std::move((*step)->transport);
  parser_ = std::move((*step)->parser);
  info_ = std::move((*step)->info);
  connected_ = true;
  progress_ = base::Now();
  backoff_.Reset();
  ++stats_.connects;
}

absl::StatusOr<std::optional<Connection>> Channel::Attempt(base::Instant deadline) {
  if (!wake_fd_.valid()) wake_fd_ = base::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd_.valid()) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", server_, ": ", std::strerror(errno)));
  }
  return connector_.Step(deadline);
}

void Channel::Receive(const Exchange& mine, base::Instant deadline, Finished& finished) {
  mu_.Unlock();
  WakeFinished(mine, finished);
  const IoResult got = Read(deadline);
  std::string broken;
  if (got.kind == IoResult::Kind::kDone) {
    parser_->Feed({buffer_.get(), got.bytes});
    for (;;) {
      auto reply = parser_->Next();
      if (!reply.ok()) broken = std::string(reply.status().message());
      if (!reply.ok() || !reply->has_value()) break;
      arrived_.push_back(**std::move(reply));
    }
  } else if (got.kind != IoResult::Kind::kAgain) {
    broken = Describe(got);
  }
  mu_.Lock();
  if (got.kind == IoResult::Kind::kDone) progress_ = base::Now();
  for (Reply& reply : arrived_) {
    if (!pipeline_.Deliver(std::move(reply), finished)) broken = "it answered what nobody asked";
  }
  arrived_.clear();
  if (!finished.empty()) spin_.Received(finished.size());  // a batch is no crowd
  if (!broken.empty()) doomed_ = std::move(broken);
}

IoResult Channel::Read(base::Instant deadline) {
  if (deadline == kAtOnce) return transport_->Read(buffer_.get(), kReadSize);
  if (const absl::Duration spin = spin_.Length(); spin > absl::ZeroDuration()) {
    const base::Instant until = std::min(deadline, base::Now() + spin);
    for (;;) {
      const IoResult got = transport_->Read(buffer_.get(), kReadSize);
      if (got.kind != IoResult::Kind::kAgain) return got;
      if (until <= base::Now()) break;
      sched_yield();  // the server, or a follower with more to send, may want this processor
      if (has_unsent_.load(std::memory_order_acquire)) break;  // where it can be sent, see below
    }
  }
  auto interest = Transport::Interest::kRead;
  {
    const base::MutexLock lock(mu_);
    if (MayWrite() || !doomed_.empty()) return IoResult();  // neither came to the leader's ears
    if (write_blocked_) interest = Transport::Interest::kReadAndWrite;
    leader_sleeps_ = true;
  }
  const Readiness ready = transport_->Wait(interest, wake_fd_.get(), deadline);
  {
    const base::MutexLock lock(mu_);
    leader_sleeps_ = false;
    if (ready.writable) write_blocked_ = false;
  }
  if (ready.woken) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = read(wake_fd_.get(), &count, sizeof count);
  }
  return ready.readable ? transport_->Read(buffer_.get(), kReadSize) : IoResult();
}

void Channel::Break(Finished& finished) {
  connected_ = false;
  while (writing_) {
    writer_left_.Arm();
    mu_.Unlock();
    writer_left_.ParkUntil(base::Instant::Infinite());
    mu_.Lock();
  }
  transport_->DiscardUnsent();
  transport_.reset();
  write_blocked_ = false;
  last_failure_ = absl::UnavailableError(
      absl::StrCat("lost the connection to ", server_, ": ", std::exchange(doomed_, {})));
  pipeline_.ConnectionLost(std::string_view(in_flight_).substr(in_flight_done_),
                           MarkMayHaveExecuted(absl::UnavailableError(
                               absl::StrCat(std::string(last_failure_.message()),
                                            " (the command was sent and may have been executed)"))),
                           finished);
  in_flight_.clear();
  in_flight_done_ = 0;
  next_attempt_ = base::Now();
  ++stats_.breaks;
}

bool Channel::MayWrite() const {
  return connected_ && !writing_ && !write_blocked_ && doomed_.empty() &&
         (in_flight_done_ < in_flight_.size() || pipeline_.unsent_bytes() > 0);
}

void Channel::Write() {
  while (MayWrite()) {
    if (in_flight_done_ == in_flight_.size()) {
      in_flight_.clear();
      in_flight_done_ = 0;
      if (!pipeline_.awaits_reply()) progress_ = base::Now();
      pipeline_.TakeUnsent(in_flight_);
      has_unsent_.store(false, std::memory_order_relaxed);
    }
    const std::string_view rest = std::string_view(in_flight_).substr(in_flight_done_);
    writing_ = true;
    mu_.Unlock();
    const IoResult put = transport_->Write(rest);
    mu_.Lock();
    writing_ = false;
    if (put.kind == IoResult::Kind::kDone) in_flight_done_ += put.bytes;
    if (!connected_) {
      writer_left_.Set(kDone);
      return;
    }
    if (put.kind == IoResult::Kind::kDone) continue;
    // What is left waits for the leader, who looks for room from here on.
    write_blocked_ = put.kind == IoResult::Kind::kAgain;
    if (!write_blocked_) doomed_ = Describe(put);
    InterruptLeader();
  }
}

void Channel::InterruptLeader() {
  if (!leader_sleeps_) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(wake_fd_.get(), &one, sizeof one);
}

Channel::Stats Channel::stats() const {
  if (fork_guard_.InForkedChild()) return Stats();
  const base::MutexLock lock(mu_);
  return stats_;
}

ServerInfo Channel::server_info() const {
  if (fork_guard_.InForkedChild()) return ServerInfo();
  const base::MutexLock lock(mu_);
  return info_;
}

}  // namespace redlatch::redis
