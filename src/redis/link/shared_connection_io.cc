// What the leader does on the connection; who leads is in shared_connection.cc.
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/link/shared_connection_impl.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

void SharedConnection::Impl::Reconnect(Exchange& mine, base::Instant deadline, Finished& finished) {
  const base::Instant next_attempt = comeback_.next_attempt();
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
    last_failure_ = MarkNotSent(step.status());
    comeback_.Failed();
    const bool lasting = !absl::IsUnavailable(last_failure_);
    pipeline_.FailUnsent(
        [&](const Exchange* each) { return lasting || each == nullptr || each->fail_fast; },
        last_failure_, finished);
    return;
  }
  if (!step->has_value()) return;
  transport_ = std::move((*step)->transport);
  parser_ = std::move((*step)->parser);
  info_ = std::move((*step)->info);
  connected_ = true;
  progress_ = base::Now();
  peer_ = Peer{.address = std::move((*step)->address), .since = progress_};
  comeback_.Made();
  if (options_.introduction) pipeline_.Prepend(*options_.introduction);
  if (++stats_.connects > 1 && options_.on_reconnected) options_.on_reconnected();
}

absl::StatusOr<std::optional<Connection>> SharedConnection::Impl::Attempt(base::Instant deadline) {
  if (!wake_.Open()) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", server_, ": ", std::strerror(errno)));
  }
  return connector_.Step(deadline);
}

void SharedConnection::Impl::Receive(const Exchange& mine, base::Instant deadline,
                                     Finished& finished) {
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
  comeback_.Heard(arrived_.size());
  for (Reply& reply : arrived_) {
    if (reply.is_error() && IsReplicas(ClassifyError(reply.text)) && leaving_.empty()) {
      leaving_ = "it is a replica now";
      if (options_.on_replica) options_.on_replica();
    }
    if (!pipeline_.Deliver(std::move(reply), finished))
      broken = "it sent a reply that nothing had asked for";
  }
  arrived_.clear();
  if (!finished.empty()) spin_.Received(finished.size());  // a batch is no crowd
  if (!broken.empty()) doomed_ = std::move(broken);
}

IoResult SharedConnection::Impl::Read(base::Instant deadline) {
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
    if (!leaving_.empty()) deadline = std::min(deadline, progress_ + options_.stall_timeout);
    leader_sleeps_ = true;
  }
  const Readiness ready = transport_->Wait(interest, wake_.fd(), deadline);
  {
    const base::MutexLock lock(mu_);
    leader_sleeps_ = false;
    if (ready.writable) write_blocked_ = false;
  }
  if (ready.woken) wake_.Drain();
  return ready.readable ? transport_->Read(buffer_.get(), kReadSize) : IoResult();
}

void SharedConnection::Impl::Break(Finished& finished) {
  connected_ = false;
  while (writing_) {
    writer_left_.Arm();
    mu_.Unlock();
    writer_left_.ParkUntil(base::Instant::Infinite());
    mu_.Lock();
  }
  transport_->DiscardUnsent();
  transport_.reset();
  peer_.reset();
  leaving_.clear();
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
  comeback_.Lost();
  ++stats_.breaks;
}

bool SharedConnection::Impl::MayWrite() const {
  return connected_ && !writing_ && !write_blocked_ && doomed_.empty() &&
         (in_flight_done_ < in_flight_.size() ||
          (leaving_.empty() && pipeline_.unsent_bytes() > 0));
}

void SharedConnection::Impl::LeaveOnceAnswered() {
  const bool written = !writing_ && in_flight_done_ == in_flight_.size();
  const bool answered = written && !pipeline_.awaits_reply();
  const bool silent = base::Now() - progress_ >= options_.stall_timeout;
  if (!leaving_.empty() && doomed_.empty() && (answered || silent)) doomed_ = leaving_;
}

void SharedConnection::Impl::Write() {
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

void SharedConnection::Impl::VerifyAndWrite() {
  if (MayWrite()) transport_->Verify();
  Write();
}

void SharedConnection::Impl::InterruptLeader() {
  if (leader_sleeps_) wake_.Signal();
}

}  // namespace redlatch::redis
