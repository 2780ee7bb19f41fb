#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MACHINE_FIXTURE_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MACHINE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

// An acquisition, as a test wants it.
struct Want {
  uint64_t thread = 1;
  Face face = Face::kStatus;
  Patience patience = Patience::kEndless;
  absl::Duration lease = absl::Seconds(3);
  bool manual = false;
  bool whole = false;
  absl::Duration local_window = absl::Milliseconds(5);
  int local_retakes = 0;
  uint32_t permits = 1;
  uint32_t capacity = 0;
};

// A machine at a time of the test's making. A lease of 3 s has a margin of 32 ms and is renewed,
// as waiters send their heartbeats, each second.
class LockMachineTest : public ::testing::Test {
 protected:
  using State = Waiter::State;
  using Kind = Released::Kind;
  static constexpr absl::Duration kLease = absl::Seconds(3);
  static constexpr absl::Duration kValid = absl::Milliseconds(2968);
  static constexpr absl::Duration kLead = absl::Milliseconds(10);  // lost so much sooner
  static constexpr absl::Duration kThird = absl::Seconds(1);
  static constexpr uint64_t kToken = 1000;
  static constexpr GrantId kFirst = kNumberStep;

  LockMachineTest() { Make({}); }

  void Make(LockMachine::Config config) {
    config.numbers = &numbers_;
    machine_ = std::make_unique<LockMachine>(config);
  }
  LockMachine& machine() { return *machine_; }

  base::Instant now() const { return now_; }
  void Pass(absl::Duration time) { now_ = now_ + time; }
  void PassTo(base::Instant at) {
    ASSERT_LE(now_, at);
    now_ = at;
  }

  // What the last event brought about.
  const Effects& effects() const { return effects_; }
  bool Woken(const Waiter& waiter) const {
    return std::count(effects_.wakes.begin(), effects_.wakes.end(), &waiter) +
               std::count(effects_.through.begin(), effects_.through.end(), &waiter) ==
           1;
  }
  std::vector<Notice::Kind> Notices() const {
    std::vector<Notice::Kind> kinds;
    for (const Notice& notice : effects_.notices) kinds.push_back(notice.kind);
    return kinds;
  }

  Waiter& Acquire(const Want& want = {}) {
    Waiter& waiter = waiters_.emplace_back();
    waiter.thread = want.thread;
    waiter.face = want.face;
    waiter.patience = want.patience;
    waiter.began = now_;
    waiter.terms = {.lease = want.lease,
                    .manual = want.manual,
                    .whole = want.whole,
                    .permits = want.permits,
                    .capacity = want.capacity};
    waiter.options = std::make_shared<LockOptions>(
        LockOptions{.local_window = want.local_window, .local_retakes = want.local_retakes});
    machine_->Acquire(waiter, now_, Fresh());
    waiter.parked = waiter.state == State::kWaiting;
    return waiter;
  }
  void GiveUp(Waiter& waiter, State as = State::kBusy) {
    machine_->GiveUp(waiter, as, now_, Fresh());
  }
  void Poke(Waiter& waiter) {
    waiter.wake_pending = false;
    machine_->Poked(waiter, now_, Fresh());
  }
  Released Release(uint64_t hold) { return machine_->Release(hold, now_, Fresh()); }
  Released Unlock(uint64_t thread) { return machine_->Unlock(thread, now_, Fresh()); }
  void ReleaseStd() { machine_->ReleaseStd(now_, Fresh()); }
  void Expire() { machine_->Expire(now_, Fresh()); }
  bool Valid(const Waiter& waiter) const { return machine_->Valid(waiter.hold, now_); }

  std::optional<Send> Next() { return machine_->NextSend(now_); }
  // The next script, which must be of this kind.
  Send Fetch(Operation operation) {
    std::optional<Send> send = Next();
    if (!send) {
      ADD_FAILURE() << "nothing to send";
      return {};
    }
    EXPECT_EQ(send->operation, operation);
    EXPECT_EQ(send->sent, now_);
    return *send;
  }
  bool Quiet() { return !Next().has_value(); }

  void Hear(const Send& send, const Answer& answer) {
    machine_->OnAnswer(send, answer, now_, Fresh());
  }
  bool HearGrant(const NewGrant& news) { return machine_->OnGrant(news, now_, Fresh()); }

  static Answer OfBid(const BidAnswer& bid) { return {.kind = Answer::Kind::kBid, .bid = bid}; }
  static Answer Granted(int64_t others = 0, absl::Duration lease = kLease,
                        uint64_t token = kToken) {
    return OfBid(
        {.kind = BidAnswer::Kind::kGranted, .token = token, .lease = lease, .others = others});
  }
  static Answer Queued(int64_t position = 1, absl::Duration retry_after = kLease) {
    return OfBid({.kind = BidAnswer::Kind::kQueued,
                  .retry_after = retry_after,
                  .position = position,
                  .ticket = 77});
  }
  static Answer Busy() { return OfBid({.kind = BidAnswer::Kind::kBusy}); }
  static Answer Plain(Answer::Kind kind) { return {.kind = kind}; }
  static Answer Held() { return Plain(Answer::Kind::kHeld); }
  static Answer NotHeld() { return Plain(Answer::Kind::kNotHeld); }
  static Answer Cancelled() { return Plain(Answer::Kind::kCancelled); }
  static Answer ReleasedThen(const BidAnswer& bid = {}) {
    return {.kind = Answer::Kind::kReleased, .bid = bid};
  }
  static Answer Silence(bool may_have_executed = true) {
    return {.failure = absl::UnavailableError("no answer"), .may_have_executed = may_have_executed};
  }
  static Answer Refusal(absl::Status failure) { return {.failure = std::move(failure)}; }
  static Answer NotSent(absl::Status failure) {
    return {.failure = std::move(failure), .not_sent = true};
  }
  static NewGrant GrantOf(const Send& send, uint64_t token = kToken) {
    return {.grant = send.bid.grant,
            .attempt = send.bid.attempt,
            .token = token,
            .claim = send.bid.terms.lease};
  }

  // A thread that has the lock.
  Waiter& Hold(const Want& want = {}) {
    Waiter& waiter = Acquire(want);
    Hear(Fetch(Operation::kAcquire), Granted(0, want.lease));
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
  // A thread that waits in the server's queue.
  Waiter& Queue(Want want = {}) {
    Waiter& waiter = Acquire(want);
    Hear(Fetch(Operation::kAcquire), Queued());
    EXPECT_EQ(waiter.state, State::kWaiting);
    return waiter;
  }
  // Two threads: the first has a hold with tokens for all, the second waits for it.
  std::pair<Waiter*, Waiter*> Contended(const Want& first, const Want& second) {
    Waiter& holder = Acquire(first);
    Waiter& other = Acquire(second);
    Hear(Fetch(Operation::kAcquire), Granted());
    EXPECT_EQ(holder.state, State::kGranted);
    EXPECT_EQ(other.state, State::kWaiting);
    return {&holder, &other};
  }

 private:
  Effects& Fresh() { return effects_ = Effects(); }

  std::atomic<uint64_t> numbers_{0};
  std::unique_ptr<LockMachine> machine_;
  base::Instant now_ = base::Instant::FromNanos(1'000'000'000'000);
  Effects effects_;
  std::deque<Waiter> waiters_;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MACHINE_FIXTURE_H_
