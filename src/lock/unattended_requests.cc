#include "src/lock/unattended_requests.h"

#include <memory>
#include <new>
#include <utility>

#include "src/base/parker.h"
#include "src/base/status.h"
#include "src/lock/client_core.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

// How long a result may stay unread, normally and if other threads have read results since the last
// check.
constexpr absl::Duration kSoon = absl::Milliseconds(4);
constexpr absl::Duration kSoonEnough = absl::Milliseconds(16);
// After this many reads in a row without new sends, the background is not woken any more. Waking it
// again for each release costs more.
constexpr int kIdleReads = 8;
constexpr absl::Duration kTurn = absl::Milliseconds(1);

}  // namespace

UnattendedRequests::InFlight& UnattendedRequests::Prepare(Entry& entry, const Request& request) {
  InFlight* command = nullptr;
  {
    const base::MutexLock lock(mu_);
    if (free_.empty()) {
      free_.reserve(commands_.size() + 1);
      free_.push_back(commands_.emplace_back(std::make_unique<InFlight>()).get());
    }
    command = free_.back();
    free_.pop_back();
  }
  command->entry = &entry;
  command->request = request;
  command->hold = 0;
  // Reset it, since the last use may have ended before it was sent.
  command->posted.result.reset();
  return *command;
}

void UnattendedRequests::GiveBack(InFlight& command) {
  const base::MutexLock lock(mu_);
  free_.push_back(&command);
}

void UnattendedRequests::Send(Entry& entry, const Request& release, uint64_t hold) {
  InFlight* const command = base::WithMemory([&] { return &Prepare(entry, release); });
  command->hold = hold;
  command->posted.in_flight.done = [this, command] { Answered(*command); };
  LockTable::Refer(entry);
  command->batch = batch_;
  ++in_flight_[command->batch];
  ++sent_;
  absl::Status sent = base::WithMemory([&] {
    return core_.runner().Post(core_.SubjectOf(entry), command->request, command->posted);
  });
  if (sent.ok()) return ScheduleRead();
  command->posted.reply = redis::MarkNotSent(std::move(sent));
  Answered(*command);
}

// Ensures that results do not stay unread for long.
void UnattendedRequests::ScheduleRead() {
  if (!due().is_infinite()) return;
  read_at_ = (base::Now() + kSoon).nanos();
  core_.WakeBackground();
}

void UnattendedRequests::ReadSoon() {
  if (count_in_flight() == 0) return;
  read_at_ = base::Now().nanos();
  core_.WakeBackground();
}

void UnattendedRequests::Read() {
  const base::Instant now = base::Now();
  const uint64_t answered = answered_;
  const bool others_read = answered != answered_before_;
  if (const size_t before = 1 - batch_; in_flight_[before] == 0) {
    batch_ = before;
    waiting_since_ = now;
  }
  // An overdue result is waited for as in a call, which replaces a stalled connection.
  const bool overdue = now - waiting_since_ > core_.command_timeout();
  if (count_in_flight() > 0) core_.server_group().Drain(overdue ? now + kTurn : base::Instant());

  answered_before_ = answered_;
  const uint64_t sent = sent_;
  const bool idle = count_in_flight() == 0 && sent == sent_before_;
  sent_before_ = sent;
  idle_reads_ = idle ? idle_reads_ + 1 : 0;
  if (idle_reads_ < kIdleReads) {
    read_at_ = (now + (others_read ? kSoonEnough : kSoon)).nanos();
    return;
  }
  idle_reads_ = 0;
  read_at_ = base::Instant::Infinite().nanos();
  if (sent_ != sent) read_at_ = (now + kSoon).nanos();  // its sender may not have seen that
}

void UnattendedRequests::Flush(base::Instant until) {
  while (count_in_flight() > 0 && base::Now() < until) {
    // If another thread reads, it brings the replies.
    if (!core_.server_group().Drain(until)) base::Parker().ParkUntil(base::Now() + kTurn);
  }
}

void UnattendedRequests::Answered(InFlight& command) {
  if (closed_) return;  // the lock states are gone
  Entry& entry = *command.entry;
  const Result result = core_.TakeReply(entry, command.request, command.posted);
  Released released;
  core_.FeedWithRoom(entry, [&](LockState& state, base::Instant now, Effects& effects) {
    state.OnResult(command.request, result, now, effects);
    if (command.hold == 0) return;  // the release of a cached grant
    released = state.Outcome(command.hold);
    // No caller will ask for the outcome later.
    if (released.kind == Released::Kind::kUnconfirmed) state.Forget(command.hold);
  });
  if (command.hold != 0 && core_.observed()) core_.TellReleasedLater(entry, released);
  const size_t batch = command.batch;
  GiveBack(command);
  core_.lock_table().Unrefer(entry);
  ++answered_;
  --in_flight_[batch];
}

}  // namespace redlatch::internal
