#ifndef REDLATCH_TESTS_UNIT_LOCK_STATE_STATE_FIXTURE_H_
#define REDLATCH_TESTS_UNIT_LOCK_STATE_STATE_FIXTURE_H_

#include <deque>

#include "src/lock/state/lock_state.h"
#include "src/lock/state/timing.h"
#include "tests/support/testing.h"

namespace redlatch::internal {

// The request's content, which must be of this kind.
template <class What>
const What& As(const Request& request) {
  return std::get<What>(request.what);
}

// The request's acquire, which must exist.
inline const AcquireRequest& AcquireOf(const Request& request) {
  const AcquireRequest* const acquire = request.acquire();
  if (acquire == nullptr) throw std::bad_variant_access();
  return *acquire;
}

// What a test's acquisition asks for.
struct Want {
  uint64_t thread = 1;
  Face face = Face::kStatus;
  WaitLimit wait_limit = WaitLimit::kEndless;
  absl::Duration lease = absl::Seconds(3);
  bool manual = false;
  bool whole = false;
  std::optional<Duration> turn = {};
  absl::Duration cache_for = absl::ZeroDuration();
  uint32_t permits = 1;
  uint32_t capacity = 0;
  bool native = false;
  absl::Duration stop_margin = absl::ZeroDuration();
  absl::Duration grace = absl::ZeroDuration();
  absl::Duration at_most = absl::InfiniteDuration();
  absl::Duration at_least = absl::ZeroDuration();
  bool told = false;
  int16_t acks = 0;
};

// A lock state with a clock that the test moves. A lease of 3 s has a margin of 32 ms; its renewals
// and heartbeats are due every second.
class LockStateTest : public ::testing::Test {
 protected:
  using State = Waiter::State;
  using Kind = Released::Kind;
  static constexpr absl::Duration kLease = absl::Seconds(3);
  static constexpr absl::Duration kValid = absl::Milliseconds(2968);
  // reported lost this much earlier
  static constexpr absl::Duration kLead = absl::Milliseconds(10);
  static constexpr absl::Duration kThird = absl::Seconds(1);
  static constexpr uint64_t kToken = 1000;
  static constexpr base::Numbers::Key kKey = {1, 2};
  static constexpr GrantId kFirst = base::Numbers::Secret(kKey, 1);

  LockStateTest() { Make({}); }

  // Makes a lock that a thread may take at most `retakes` times in a row while others wait.
  void Make(LockState::Config config, int retakes = 0) {
    config.numbers = &numbers_;
    config.retakes = retakes;
    state_ = std::make_unique<LockState>(config);
  }
  LockState& state() { return *state_; }

  base::Instant now() const { return now_; }
  void Pass(absl::Duration time) { now_ = now_ + time; }
  void PassTo(base::Instant at) {
    ASSERT_LE(now_, at);
    now_ = at;
  }

  // The consequences of the last event.
  const Effects& effects() const { return effects_; }
  bool Woken(const Waiter& waiter) const {
    return std::count(effects_.wakes.begin(), effects_.wakes.end(), &waiter) == 1;
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
    waiter.wait_limit = want.wait_limit;
    waiter.began = now_;
    waiter.options = std::make_shared<LockOptions>(LockOptions{.turn = want.turn,
                                                               .cache_for = want.cache_for,
                                                               .stop_margin = want.stop_margin,
                                                               .at_most = want.at_most,
                                                               .grace = want.grace,
                                                               .tell_if_wanted = want.told});
    waiter.terms = {.lease = want.lease + want.grace,
                    .margin = PackedDuration(Margin(*waiter.options)),
                    .at_least = PackedDuration(want.at_least),
                    .manual = want.manual,
                    .whole = want.whole,
                    .cacheable = want.cache_for > absl::ZeroDuration() && !want.manual,
                    .bounded = IsBounded(*waiter.options),
                    .told = want.told,
                    .acks = {.replicas = want.acks},
                    .permits = want.permits,
                    .capacity = want.capacity};
    waiter.turn = PackedDuration(want.turn.value_or(absl::ZeroDuration()));
    waiter.native = want.native;
    waiter.object = this;
    state_->Acquire(waiter, now_, Fresh());
    waiter.parked = waiter.state == State::kWaiting;
    return waiter;
  }
  // A thread asks, and this is its request.
  std::pair<Waiter&, Request> Asked(const Want& want = {}) {
    Waiter& waiter = Acquire(want);
    return {waiter, Fetch<AcquireRequest>()};
  }
  // A thread asks, and gets that answer.
  Waiter& Answered(const Result& result, const Want& want = {}) {
    Waiter& waiter = Acquire(want);
    Deliver(Fetch<AcquireRequest>(), result);
    return waiter;
  }
  void GiveUp(Waiter& waiter, State as = State::kBusy) {
    state_->GiveUp(waiter, as, now_, Fresh());
  }
  void Wake(Waiter& waiter) {
    waiter.wake_pending = false;
    state_->OnWoken(waiter, now_, Fresh());
  }
  Released Release(uint64_t hold) { return state_->Release(hold, now_, Fresh()); }
  Released Unlock(uint64_t thread) { return state_->Unlock(thread, now_, Fresh()); }
  std::optional<Request> NextAtExit(base::Instant resumes) {
    return state_->NextAtExit(resumes, now_, Fresh());
  }
  void ReleaseStd() { state_->ReleaseStd(now_, Fresh()); }
  void Expire() { state_->Expire(now_, Fresh()); }
  void PassToExpiry() {
    PassTo(state_->next_expiry());
    Expire();
  }
  // Why the only hold was lost in the last event.
  std::string LostBecause() const {
    EXPECT_EQ(effects_.lost.size(), 1U);
    return std::string(effects_.lost_because.Text());
  }
  bool Valid(const Waiter& waiter) const { return state_->Valid(waiter.hold, now_); }

  std::optional<Request> Next() { return state_->NextRequest(now_); }
  // The next request, which must be of this kind.
  template <class What>
  Request Fetch() {
    std::optional<Request> request = Next();
    if (!request) {
      ADD_FAILURE() << "nothing to send";
      return {.what = What()};
    }
    EXPECT_TRUE(std::holds_alternative<What>(request->what))
        << "it is of kind " << request->what.index();
    EXPECT_EQ(request->sent, now_);
    return *request;
  }
  // The same, at the time for which it is planned.
  template <class What>
  Request FetchDue() {
    PassTo(state_->next_request_at());
    return Fetch<What>();
  }
  // The release of that hold.
  Request FetchReleaseOf(uint64_t hold) {
    Release(hold);
    return Fetch<ReleaseRequest>();
  }
  bool Quiet() { return !Next().has_value(); }

  void Deliver(const Request& request, const Result& result) {
    state_->OnResult(request, result, now_, Fresh());
  }
  void Recall(GrantId grant, bool tried = false) { state_->OnRecall(grant, now_, Fresh(), tried); }
  void DeliverGrant(const NewGrant& news) { state_->OnGrant(news, now_, Fresh()); }

  static Result Granted(int64_t others = 0, absl::Duration lease = kLease,
                        uint64_t token = kToken) {
    return {.what = AcquireGranted{.token = token, .lease = lease, .others = others}};
  }
  static Result Queued(int64_t position = 1, absl::Duration retry_after = kLease) {
    return {.what = AcquireQueued{.retry_after = retry_after, .position = position, .ticket = 77}};
  }
  static Result Busy() { return {.what = AcquireBusy()}; }
  static Result HoldRef() { return {.what = StillHeld()}; }
  static Result NotHeld() { return {.what = internal::NotHeld()}; }
  static Result Cancelled() { return {.what = internal::Cancelled()}; }
  static Result ReleasedThen(const AcquireResult& next = {}) {
    return {.what = Freed{.next = next}};
  }
  static Result Silence(bool may_have_executed = true) {
    return {.what = Failed{.why = absl::UnavailableError("no answer"),
                           .may_have_executed = may_have_executed}};
  }
  static Result Refusal(absl::Status why) { return {.what = Failed{.why = std::move(why)}}; }
  static Result NotSent(absl::Status why) {
    return {.what = Failed{.why = std::move(why), .not_sent = true}};
  }
  static NewGrant GrantOf(const Request& request, uint64_t token = kToken) {
    return {.grant = AcquireOf(request).grant,
            .attempt = AcquireOf(request).attempt,
            .token = token,
            .lease = AcquireOf(request).terms.lease};
  }

  // A thread that has the lock, for which that many clients wait.
  Waiter& Hold(const Want& want = {}, int64_t others = 0) {
    Waiter& waiter = Answered(Granted(others, want.lease + want.grace), want);
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
  // A thread that waits in the server's queue.
  Waiter& Queue(Want want = {}) {
    Waiter& waiter = Answered(Queued(), want);
    EXPECT_EQ(waiter.state, State::kWaiting);
    return waiter;
  }
  // Two threads: the first has a hold with tokens for both, and the second waits for it.
  std::pair<Waiter*, Waiter*> Contended(const Want& first, const Want& second) {
    Waiter& holder = Acquire(first);
    Waiter& other = Acquire(second);
    Deliver(Fetch<AcquireRequest>(), Granted());
    EXPECT_EQ(holder.state, State::kGranted);
    EXPECT_EQ(other.state, State::kWaiting);
    return {&holder, &other};
  }

 private:
  Effects& Fresh() { return effects_ = Effects(); }

  base::Numbers numbers_{kKey};
  std::unique_ptr<LockState> state_;
  base::Instant now_ = base::Instant::FromNanos(1'000'000'000'000);
  Effects effects_;
  std::deque<Waiter> waiters_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_TESTS_UNIT_LOCK_STATE_STATE_FIXTURE_H_
