// What the leader does on the connection; who leads is in shared_connection.cc.
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

void SharedConnection::Reconnect(Exchange& mine, base::Instant deadline, Finished& finished) {
  const base::Instant next_attempt = comeback_.next_attempt();
  // What the server refused it may permit by now: that is asked of it, not remembered.
  const bool unreachable = absl::IsUnavailable(last_failure_);
  if (options_.fail_fast && base::Now() < next_attempt && unreachable) {
    const absl::Status why = MarkNotSent(last_failure_);
    return pipeline_.FailUnsent([](const Exchange*) { return true; }, why, finished);
  }
  mu_.Unlock();
  TellFinished(mine, finished);
  if (base::Now() < next_attempt) {
    mine.parker.ParkUntil(std::min(deadline, next_attempt));  // nobody wakes the leader
    mu_.Lock();
    return;
  }
  auto step = Attempt(deadline);
  mu_.Lock();
  if (!step.ok()) {
    stale_.clear();  // the next attempt looks anew
    last_failure_ = MarkNotSent(step.status());
    comeback_.Failed();
    const bool lasting = !absl::IsUnavailable(last_failure_) || options_.fail_fast;
    pipeline_.FailUnsent(
        [&](const Exchange* each) {
          return lasting || each == nullptr || each->fail_fast || !each->waits();
        },
        last_failure_, finished);
    return;
  }
  if (!step->has_value()) return;
  transport_ = std::move((*step)->dialogue.transport);
  full_duplex_ = transport_->full_duplex();
  read_wants_ = (*step)->dialogue.read_wants;
  parser_ = std::move((*step)->dialogue.parser);
  info_ = std::move((*step)->info);
  connected_ = true;
  ++made_;
  progress_ = base::Now();
  peer_ = Peer{.target = std::move((*step)->target), .since = progress_};
  comeback_.Made();
  for (auto each = options_.first.rbegin(); each != options_.first.rend(); ++each) {
    pipeline_.Prepend(*each);
  }
  leaving_ = std::exchange(stale_, {});
  if (++stats_.connects > 1 && options_.on_reconnected) options_.on_reconnected();
}

absl::StatusOr<std::optional<Connection>> SharedConnection::Attempt(base::Instant deadline) {
  if (!wake_.Open()) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", server_, ": ", std::strerror(errno)));
  }
  return connector_.Step(deadline);
}

void SharedConnection::Receive(const Exchange& mine, base::Instant deadline, Finished& finished) {
  if (!full_duplex_) HoldWriters();
  // Not beside a write that waits for what a read would take in.
  const bool may_spin = write_wants_ != Interest::kRead;
  mu_.Unlock();
  TellFinished(mine, finished);
  const IoResult got = Read(deadline, may_spin);
  std::string broken;
  if (got.kind == IoResult::Kind::kDone) {
    parser_->Feed({buffer_.get(), got.bytes});
    for (;;) {
      auto reply = parser_->Next();
      if (!reply.ok()) broken = std::string(reply.status().message());
      if (!reply.ok() || !reply->has_value()) break;
      arrived_.push_back(**std::move(reply));
    }
  } else if (!got.blocked()) {
    broken = Describe(got);
  }
  mu_.Lock();
  writers_held_ = false;
  if (write_wants_ == Interest::kRead) write_wants_ = Interest::kNone;  // it may be taken in
  if (got.kind == IoResult::Kind::kDone) progress_ = base::Now();
  comeback_.Heard(arrived_.size());
  for (Reply& reply : arrived_) {
    const ErrorCode code = reply.is_error() ? ClassifyError(reply.text) : ErrorCode::kOther;
    if (leaving_.empty() && IsOfReplica(code)) {
      leaving_ =
          code == ErrorCode::kNoReplicas ? "it has lost its replicas" : "it is a replica now";
      if (options_.on_replica) options_.on_replica();
    }
    if (!pipeline_.Deliver(std::move(reply), finished))
      broken = "it sent a reply that nothing had asked for";
  }
  arrived_.clear();
  // A batch is no crowd, nor are those who are not there.
  const auto waiting = std::count_if(finished.begin(), finished.end(),
                                     [](const Exchange* each) { return each->waits(); });
  if (waiting > 0) spin_.Received(static_cast<size_t>(waiting));
  if (!broken.empty()) doomed_ = std::move(broken);
}

bool SharedConnection::IsOfReplica(ErrorCode code) const {
  const bool cut_off = options_.no_replicas_is_replicas && code == ErrorCode::kNoReplicas &&
                       peer_ && peer_->since + absl::Seconds(1) <= base::Now();
  return cut_off || IsReplicas(code) ||
         (options_.loading_is_replicas && code == ErrorCode::kLoading);
}

IoResult SharedConnection::Read(base::Instant deadline, bool may_spin) {
  if (deadline == kAtOnce) return ReadOnce();
  const absl::Duration spin = spin_.Length();
  if (may_spin && spin > absl::ZeroDuration()) {
    const base::Instant begun = base::Now();
    const base::Instant until = std::min(deadline, begun + spin);
    for (;;) {
      const IoResult got = ReadOnce();
      if (!got.blocked()) return got;
      if (got.kind == IoResult::Kind::kWantWrite) break;
      if (until <= base::Now()) {
        spin_.InVain(until - begun);
        break;
      }
      if (spin_.crowded()) sched_yield();  // a follower with more to send may want this processor
      if (has_unsent_.load(std::memory_order_acquire)) break;  // where it can be sent, see below
    }
  }
  Interest interest = read_wants_;
  {
    const base::MutexLock lock(mu_);
    writers_held_ = false;
    if (MayWrite() || !doomed_.empty()) return IoResult();  // neither came to the leader's ears
    interest = interest | write_wants_;
    if (!leaving_.empty()) deadline = std::min(deadline, progress_ + options_.stall_timeout);
    leader_sleeps_ = true;
  }
  const Readiness ready = transport_->Wait(interest, wake_.fd(), deadline);
  {
    const base::MutexLock lock(mu_);
    leader_sleeps_ = false;
    if (ready.Meets(write_wants_)) write_wants_ = Interest::kNone;
    if (!full_duplex_) HoldWriters();
  }
  if (ready.woken) wake_.Drain();
  return ready.Meets(read_wants_) ? ReadOnce() : IoResult();
}

IoResult SharedConnection::ReadOnce() {
  const IoResult got = transport_->Read(buffer_.get(), kReadSize);
  read_wants_ = got.wants();
  return got;
}

// Until the leader lets them go on. Whoever is in Write() leaves what is left to the leader.
void SharedConnection::HoldWriters() {
  writers_held_ = true;
  while (writing_) {
    writer_left_.Arm();
    mu_.Unlock();
    writer_left_.ParkUntil(base::Instant::Infinite());
    mu_.Lock();
    has_unsent_.store(true, std::memory_order_relaxed);
  }
}

absl::Status SharedConnection::WhenSent(const std::string& why) {
  return MarkMayHaveExecuted(
      absl::UnavailableError(why + " (the command was sent and may have been executed)"));
}

void SharedConnection::FailSent(const std::string& why, Finished& finished) {
  const std::string_view unwritten = std::string_view(in_flight_).substr(in_flight_done_);
  const absl::Status unsent =
      MarkNotSent(absl::UnavailableError(why + " (the command was not sent)"));
  pipeline_.ConnectionLost(unwritten, WhenSent(why), unsent, finished);
}

void SharedConnection::GiveUpIfStalled() {
  if (!connected_ || !pipeline_.awaits_reply()) return;
  if (base::Now() - progress_ < options_.stall_timeout) return;
  doomed_ = "it has not answered for " + absl::FormatDuration(options_.stall_timeout);
  InterruptLeader();
}

void SharedConnection::Break(Finished& finished) {
  connected_ = false;
  HoldWriters();
  transport_->DiscardUnsent();
  transport_.reset();
  peer_.reset();
  leaving_.clear();
  writers_held_ = false;
  write_wants_ = Interest::kNone;
  last_failure_ = absl::UnavailableError(
      absl::StrCat("lost the connection to ", server_, ": ", std::exchange(doomed_, {})));
  FailSent(std::string(last_failure_.message()), finished);
  in_flight_.clear();
  in_flight_done_ = 0;
  comeback_.Lost();
  ++stats_.breaks;
}

bool SharedConnection::MayWrite() const {
  return connected_ && !writing_ && !writers_held_ && write_wants_ == Interest::kNone &&
         doomed_.empty() &&
         (in_flight_done_ < in_flight_.size() ||
          (leaving_.empty() && pipeline_.unsent_bytes() > 0));
}

void SharedConnection::LeaveOnceAnswered() {
  const bool written = !writing_ && in_flight_done_ == in_flight_.size();
  const bool answered = written && !pipeline_.awaits_reply();
  const bool silent = base::Now() - progress_ >= options_.stall_timeout;
  if (!leaving_.empty() && doomed_.empty() && (answered || silent)) doomed_ = leaving_;
}

void SharedConnection::Write() {
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
    if (writers_held_) writer_left_.Set(kDone);
    if (!connected_) return;
    if (put.kind == IoResult::Kind::kDone) continue;
    // What is left waits for the leader, who waits for what it wants from here on.
    if (put.blocked()) {
      write_wants_ = put.wants();
    } else {
      doomed_ = Describe(put);
    }
    InterruptLeader();
  }
}

void SharedConnection::InterruptLeader() {
  if (leader_sleeps_) wake_.Signal();
}

}  // namespace redlatch::redis
