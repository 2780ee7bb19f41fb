#include "src/lock/outbox.h"

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/parker.h"
#include "src/base/status.h"
#include "src/lock/client_core.h"
#include "src/lock/script_codec.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

// How long an answer may lie unread; and how long where it seems that it will not, as threads have
// read others since the last look.
constexpr absl::Duration kSoon = absl::Milliseconds(4);
constexpr absl::Duration kSoonEnough = absl::Milliseconds(16);
// Beyond so many reads that found nothing sent since the last, the renewer is not woken any more.
// Waking it for each release again costs more.
constexpr int kIdleReads = 8;
constexpr absl::Duration kTurn = absl::Milliseconds(1);

}  // namespace

Outbox::Outbox(ClientCore& core) : core_(core) {}
Outbox::~Outbox() = default;

Outbox::InFlight& Outbox::Take(Entry& entry, const Request& script) {
  InFlight* letter = nullptr;
  {
    const base::MutexLock lock(mu_);
    if (free_.empty()) {
      free_.reserve(in_flight_count_.size() + 1);
      free_.push_back(in_flight_count_.emplace_back(std::make_unique<InFlight>()).get());
    }
    letter = free_.back();
    free_.pop_back();
  }
  letter->entry = &entry;
  letter->script = script;
  letter->hold = 0;
  // As new: the last use may have ended before it was sent.
  letter->posted.result.reset();
  redis::InFlight& in_flight = letter->posted.in_flight;
  in_flight.done = nullptr;
  in_flight.away = false;
  in_flight.at = nullptr;
  in_flight.parker.Arm();
  return *letter;
}

// Nobody waits for it: its answer comes to Answered().
void Outbox::GoesAlone(InFlight& letter) {
  LockTable::Refer(*letter.entry);
  letter.batch = batch_;
  ++under_way_[letter.batch];
  ++sent_;
}

void Outbox::GiveBack(InFlight& letter) {
  letter.posted.in_flight.keeps = nullptr;
  const base::MutexLock lock(mu_);
  free_.push_back(&letter);
}

void Outbox::Send(Entry& entry, const Request& release, uint64_t hold) {
  InFlight* letter = nullptr;
  absl::Status sent;
  try {
    letter = &Take(entry, release);
    letter->hold = hold;
    letter->posted.in_flight.done = [this, letter] { Answered(*letter); };
    GoesAlone(*letter);
    sent = core_.runner().Post(core_.SubjectOf(entry), letter->script, letter->posted);
  } catch (const std::bad_alloc&) {
    sent = base::NoMemory();
  }
  if (sent.ok()) return SeeToReading();
  if (letter == nullptr) return Feed(entry, release, hold, {.what = Failed{.why = sent}});
  letter->posted.replies[1] = redis::MarkNotSent(std::move(sent));
  Answered(*letter);
}

Outbox::InFlight* Outbox::Begin(Entry& entry, const Request& acquire) {
  InFlight& letter = Take(entry, acquire);
  letter.posted.in_flight.results = absl::MakeSpan(letter.posted.replies).last(1);
  absl::Cleanup give_back = [&] { GiveBack(letter); };
  EncodedRequest request(core_.SubjectOf(entry), letter.script);
  const redis::ScriptCall call = request.call();
  if (!core_.server_group().Post(call, letter.posted.in_flight).ok()) return nullptr;
  std::move(give_back).Cancel();
  return &letter;
}

absl::StatusOr<redis::Reply> Outbox::Finish(InFlight& letter, base::Instant deadline) {
  redis::SharedConnection::Finish(letter.posted.in_flight, deadline);
  absl::StatusOr<redis::Reply> reply = std::exchange(letter.posted.replies[1], redis::Reply());
  GiveBack(letter);
  return reply;
}

void Outbox::Leave(InFlight& letter) {
  // Answers of a forgotten server are not read: its letters fail when it is destroyed.
  const std::shared_ptr<const void> keeps = std::move(letter.posted.in_flight.keeps);
  GoesAlone(letter);
  const auto done = [this, &letter] { Answered(letter); };
  redis::SharedConnection::Leave(letter.posted.in_flight, done) ? SeeToReading() : Answered(letter);
}

// That the answer does not lie unread for long.
void Outbox::SeeToReading() {
  if (!due().is_infinite()) return;
  read_at_ = (base::Now() + kSoon).nanos();
  core_.WakeBackground();
}

void Outbox::Read() {
  const base::Instant now = base::Now();
  const uint64_t answered = answered_;
  const bool others_read = answered != answered_before_;
  if (const size_t before = 1 - batch_; under_way_[before] == 0) {
    batch_ = before;
    waiting_since_ = now;
  }
  // Answers that are overdue are waited for as a call does, which gives up a connection that
  // stalls.
  const bool overdue = now - waiting_since_ > core_.command_timeout();
  if (under_way() > 0) core_.server_group().Drain(overdue ? now + kTurn : base::Instant());
  answered_before_ = answered_;

  const uint64_t sent = sent_;
  const bool idle = under_way() == 0 && sent == sent_before_;
  sent_before_ = sent;
  idle_reads_ = idle ? idle_reads_ + 1 : 0;
  if (idle_reads_ < kIdleReads) {
    read_at_ = (now + (others_read ? kSoonEnough : kSoon)).nanos();
    return;
  }
  idle_reads_ = 0;
  read_at_ = base::Instant::Infinite().nanos();
  if (sent_ != sent) read_at_ = (now + kSoon).nanos();  // it may not have seen that
}

void Outbox::Flush(base::Instant until) {
  while (under_way() > 0 && base::Now() < until) {
    // Where another thread reads, that brings the answers.
    if (!core_.server_group().Drain(until)) base::Parker().ParkUntil(base::Now() + kTurn);
  }
}

void Outbox::Answered(InFlight& letter) {
  if (closed_) return;  // nothing is left that it could be told to
  Entry& entry = *letter.entry;
  Feed(entry, letter.script, letter.hold, OrNoMemory([&] {
         PostedRequest& posted = letter.posted;
         const std::string node = core_.is_cluster() ? core_.server(entry.keys.main()) : "";
         const absl::StatusOr<redis::Reply> reply =
             redis::ResultOfPosted(std::exchange(posted.replies[1], redis::Reply()),
                                   core_.is_cluster() ? std::string_view(node) : core_.server());
         Result result =
             posted.result ? *std::move(posted.result) : ReadResult(letter.script, reply);
         core_.NoteAnswer(entry, letter.script, result);
         return result;
       }));
  const size_t batch = letter.batch;
  GiveBack(letter);
  core_.machines().Unrefer(entry);
  ++answered_;
  --under_way_[batch];
}

void Outbox::Feed(Entry& entry, const Request& script, uint64_t hold, const Result& result) {
  Released released;
  core_.Feed(entry, [&](LockState& state, Effects& effects) {
    state.OnResult(script, result, base::Now(), effects);
    if (hold == 0) return;  // a bid, or the release of a cached grant
    auto& lock = static_cast<LockState&>(state);
    released = lock.Outcome(hold);
    // The outcome is not asked for later.
    if (released.kind == Released::Kind::kUnderWay) lock.Forget(hold);
  });
  if (hold != 0 && core_.observed()) core_.TellReleasedLater(entry, released);
}

}  // namespace redlatch::internal
