// What the client asks of the server so as to get what its threads wait for.
#include "src/lock/state/bidder.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "src/base/status.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {
namespace {

constexpr uint32_t kBlock = 4096;
// So soon nobody has taken a lock that was handed over, and released it.
constexpr absl::Duration kHandingOver = absl::Microseconds(50);
// How long the answer may lie unread to a bid that will be queued: until the grant has mostly come.
// If the bid was granted at once, others wait for so long.
constexpr absl::Duration kShortestUnread = absl::Microseconds(200);
constexpr absl::Duration kLongestUnread = absl::Milliseconds(2);
constexpr absl::Duration kFirstPoll = absl::Milliseconds(50);
constexpr absl::Duration kLongestPoll = absl::Milliseconds(500);
constexpr absl::Duration kBehindARelease = absl::Milliseconds(1);

bool MayPass(const absl::Status& failure, bool queued) {
  return absl::IsUnavailable(failure) || (queued && absl::IsResourceExhausted(failure));
}

}  // namespace

void Bidder::UpdatePending(base::Instant now) {
  if (satisfied()) return;
  const Waiter* const head = queue_.head();
  if (head == nullptr) server_.Forget();
  if (pending_ && (head == nullptr || pending_->acquire.terms != head->terms)) CancelPending(now);
  if (pending_ && pending_->ask_again) AskNow(now);  // whoever was to do so may have left
  if (pending_ || head == nullptr) return;
  pending_.emplace();
  pending_->acquire.grant = NextGrant() | (head->terms.cacheable ? kCacheable : 0);
  pending_->acquire.terms = head->terms;
  pending_->began = now;
  pending_->due = now;
}

void Bidder::CancelPending(base::Instant now) {
  const PendingAcquire& pending = *pending_;
  const bool unanswered = pending.in_flight || pending.uncertain;
  if (unanswered || pending.queued) {
    cleanups_.Add({
        .request = {.what = CancelRequest{.tombstone = unanswered, .block = pending.acquire.block},
                    .grant = pending.acquire.grant,
                    .lease = pending.acquire.terms.lease},
        .expires = now + LongestAbandoned(pending.acquire.terms.lease, config_.longest_heartbeat),
        .due = now,
    });
  }
  pending_.reset();
}

AcquireRequest Bidder::NextAcquire(base::Instant now, bool contended) {
  PendingAcquire& pending = *pending_;
  const Waiter& head = *queue_.head();
  if (pending.acquire.attempt == 0) {
    const absl::Duration none = absl::ZeroDuration();
    const bool passes_on =
        ((contended && head.options->local_window > none) || head.options->turn > none) &&
        !head.terms.manual && !config_.explicit_owner && config_.sharing.passes_on;
    pending.acquire.block = passes_on ? kBlock : head.terms.permits;
    // In its turn the client keeps a lock that no thread has, but as a claim, in case its process
    // ends.
    pending.acquire.claims = passes_on && head.options->turn > none && !head.terms.whole &&
                             !head.terms.cacheable && !head.terms.acks.any();
  }
  pending.acquire.wait = false;
  for (const Waiter* waiter = &head; waiter != nullptr; waiter = waiter->next) {
    if (waiter->patience == Patience::kNone) continue;
    pending.acquire.wait = true;
    break;
  }
  const uint32_t second = SecondOf(now);
  pending.acquire.calls = !pending.acquire.wait && called_s_ != second;
  if (pending.acquire.calls) called_s_ = second;
  ++pending.acquire.attempt;
  pending.acquire.listen = pending.acquire.attempt > 1;
  pending.again = pending.ask_again = pending.forced = false;
  pending.attempts.push_back({.number = pending.acquire.attempt, .sent = now});
  pending.in_flight = true;
  AcquireRequest acquire = pending.acquire;
  // Whoever misses message after message comes last, and so keeps nobody waiting for its claims.
  if (misses_) acquire.ticket = 0;
  // What is left of a claim is to become the whole lease, also of a manual hold.
  if (pending.claimed) acquire.terms.manual = false;
  return acquire;
}

std::optional<base::Instant> Bidder::TakeMissed() {
  if (std::exchange(missed_, 0) == 0) return std::nullopt;
  return missed_since_;
}

void Bidder::Enqueue(Waiter& waiter, base::Instant now) {
  waiter.since = now;
  queue_.Append(waiter);
  UpdatePending(now);
  // Whoever does not wait is not kept until a retry is due.
  if (waiter.patience == Patience::kNone && pending_ && now < pending_->due) pending_->due = now;
}

void Bidder::AskNow(base::Instant now) {
  pending_->due = now;
  pending_->again = pending_->in_flight;
}

// By the head's own thread, which is woken for it: nobody is as near.
void Bidder::OnAskAgain(GrantId grant, Effects& effects) {
  Waiter* const head = queue_.head();
  if (!IsPending(grant) || head == nullptr) return;
  misses_ = false;  // it hears
  if (grant == missed_) missed_ = 0;
  pending_->ask_again = pending_->exposed = true;
  pending_->again |= pending_->in_flight;
  head->awaits_wake = true;
  Wake(*head, effects);
}

void Bidder::OnWoken(Waiter& waiter, base::Instant now, Effects&) {
  waiter.awaits_wake = false;
  if (pending_ && pending_->ask_again) AskNow(now);
}

void Bidder::OnUnwanted(GrantId grant, absl::Duration lease, uint32_t block, base::Instant now) {
  if (cleanups_.Has(grant)) return;
  cleanups_.Add({.request = {.what = CancelRequest{.block = block}, .grant = grant, .lease = lease},
                 .expires = now + LongestAbandoned(lease, config_.longest_heartbeat),
                 .due = now});
}

Request Bidder::WithAcquire(PendingCleanups::Due due, base::Instant now) {
  auto* const release = std::get_if<ReleaseRequest>(&due.request.what);
  if (release != nullptr && due.first && pending_ && pending_->acquire.attempt == 0 &&
      config_.sharing.passes_on && !config_.several) {
    release->next = NextAcquire(now, true);  // whoever released is likely to come again
    due.request.missed_since = TakeMissed();
  }
  return std::move(due.request);
}

std::optional<Request> Bidder::NextRequest(base::Instant now, absl::Duration) {
  if (auto due = cleanups_.Next(now)) return WithAcquire(*std::move(due), now);
  if (pending_ && !pending_->in_flight && std::max(pending_->due, blocked_until_) <= now) {
    std::optional<Request> request(std::in_place);
    AcquireRequest& acquire = request->what.emplace<ToAcquire>().acquire =
        NextAcquire(now, queue_.has_several());
    request->grant = acquire.grant;
    request->lease = acquire.terms.lease;
    request->sent = now;
    request->missed_since = TakeMissed();
    if (acquire.attempt == 1) {
      asks_at_once_ = now - handed_at_ < kHandingOver;
      if (asks_at_once_ && acquire.wait && !request->missed_since) {
        request->unread_for =
            std::clamp(Scaled(usual_wait_, 2, 1), kShortestUnread, kLongestUnread);
      }
    }
    return request;
  }
  return handover_check_.Next(now);
}

bool Bidder::IsWanted(const Request& request) const {
  // What ends at the server is to end there; the bid behind a release may be given up: a tombstone
  // sees to that.
  return !std::holds_alternative<ToAcquire>(request.what) || IsPending(request.grant);
}

// A script handed the lock over; or, with a look of a millisecond, it came to the end of a window,
// and whoever ran it goes on at once.
void Bidder::CheckHandoverAfter(absl::Duration check_after, base::Instant now,
                                absl::Duration later) {
  const auto fresh = [this] { return NextGrant(); };
  const bool at_once = check_after <= absl::Milliseconds(1);
  base::Instant then = base::Instant::Infinite();
  if (later > absl::ZeroDuration()) then = now + later + kCheckGrace;
  if (at_once && pending_ && pending_->queued) {  // its heartbeat goes on as well
    pending_->due = std::min(pending_->due, now);
    pending_->again |= pending_->in_flight;
    // The heartbeat does not stand for the look: it may be late, or never come.
    if (!then.is_infinite()) handover_check_.Add(then, fresh);
    return;
  }
  if (at_once) return handover_check_.AddAtOnce(now, then, fresh);
  handover_check_.Add(now + check_after + kCheckGrace, fresh);
}

void Bidder::OnForced(GrantId grant, base::Instant now) {
  if (!IsPending(grant)) return;
  pending_->forced = pending_->in_flight;
  pending_->exposed = true;
  AskNow(now);
}

void Bidder::OnReconnected(base::Instant now) {
  if (pending_) {
    pending_->exposed = true;  // by messages that this client may have missed
    AskNow(now);
  }
  cleanups_.RepeatAll(std::max(now, blocked_until_));
}

base::Instant Bidder::next_request_at() const {
  const base::Instant next = std::min(cleanups_.due(), handover_check_.due());
  if (!pending_ || pending_->in_flight) return next;
  return std::min(next, std::max(pending_->due, blocked_until_));
}

void Bidder::AddStateTo(LockStats& stats) const { stats.waiting += waiting(); }

uint64_t Bidder::waiting() const {
  uint64_t waiters = 0;
  for (const Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) ++waiters;
  return waiters;
}

// ---- What a bid came to: by the server's answer, or by message.

void Bidder::OnResult(const Request& request, const Result& result, base::Instant now,
                      Effects& effects) {
  if (result.failed() == nullptr) server_.Heard(now);
  if (!std::holds_alternative<ToAcquire>(request.what) &&
      !handover_check_.OnResult(request, result, now, [this] { return NextGrant(); })) {
    cleanups_.OnResult(request, result, now, effects);
  }
  if (const AcquireRequest* const acquire = request.acquire()) {
    if (result.unsubscribed) {
      misses_ = false;  // no message can come: its place in the queue is not to blame
      missed_ = 0;
    } else if (result.missed) {
      OnMissed(acquire->grant);
    }
    OnAcquireResult({.acquire = *acquire, .sent = request.sent}, result, now, effects);
    if (result.unsubscribed) PollSoon(acquire->grant, now);
  }
  if (result.check_after > absl::ZeroDuration())
    CheckHandoverAfter(result.check_after, now, result.check_later);
}

void Bidder::OnAcquireResult(const Bade& bade, const Result& result, base::Instant now,
                             Effects& effects) {
  const AcquireRequest& acquire = bade.acquire;
  if (IsPending(acquire.grant)) {
    if (result.failed() != nullptr) return OnAcquireFailed(bade, *result.failed(), now, effects);
    return OnPendingResult(bade, result.acquire(), now, effects);
  }
  if (OnLateResult(bade, result, now, effects)) return;
  if (std::holds_alternative<AcquireGranted>(result.acquire()) ||
      std::holds_alternative<AcquireQueued>(result.acquire())) {
    OnUnwanted(acquire.grant, acquire.terms.lease, acquire.block, now);
  }
}

void Bidder::OnPendingResult(const Bade& bade, const AcquireResult& result, base::Instant now,
                             Effects& effects) {
  pending_->in_flight = false;
  auto& attempts = pending_->attempts;
  while (!attempts.empty() && attempts.front().number < bade.acquire.attempt) {
    attempts.erase(attempts.begin());
  }
  if (const auto* const granted = std::get_if<AcquireGranted>(&result)) {
    return OnAcquireGranted(bade, *granted, now, effects);
  }
  if (const auto* const queued = std::get_if<AcquireQueued>(&result)) {
    return OnQueued(*queued, now, effects);
  }
  if (std::holds_alternative<AcquireBusy>(result)) return OnBusy(now, effects);
  if (std::holds_alternative<AcquireNotMade>(result)) {
    pending_->due = now;
    return;
  }
  pending_.reset();
  UpdatePending(now);
}

void Bidder::OnAcquireGranted(const Bade& bade, const AcquireGranted& result, base::Instant now,
                              Effects& effects) {
  const AcquireRequest& acquire = bade.acquire;
  // What is left of a claim is not the lease that was asked for.
  if (acquire.terms.manual && pending_->queued && result.lease < acquire.terms.lease / 10 * 9) {
    return ConfirmFirst(now, effects);
  }
  OnGranted({.grant = acquire.grant,
             .attempt = acquire.attempt,
             .token = result.token,
             .claim = result.lease,
             .others = result.others},
            {.lease = result.lease,
             .asked = bade.sent,
             .claim = acquire.claims && result.lease < acquire.terms.lease},
            now, effects);
}

void Bidder::OnBusy(base::Instant now, Effects& effects) {
  taken_at_ = now;
  // It may be a grant of ours that keeps us out, whose release was overtaken: ask behind that.
  if (cleanups_.Hurry(now)) {
    pending_->due = now + kBehindARelease;
    return;
  }
  RefuseImpatient(effects);
  pending_->due = now;
  UpdatePending(now);
}

void Bidder::OnQueued(const AcquireQueued& result, base::Instant now, Effects& effects) {
  PendingAcquire& pending = *pending_;
  cleanups_.Hurry(now);
  taken_at_ = now;
  pending.queued = true;
  pending.claimed = false;
  pending.failures = 0;
  pending.acquire.ticket = result.ticket;
  OnCounts(result.told);
  pending.due = now + HeartbeatInterval(pending.acquire.terms.lease, config_.longest_heartbeat);
  if (pending.acquire.attempt == 1) {
    pending.began = now;
    if (usual_wait_ > absl::ZeroDuration()) {
      pending.due = std::min(pending.due, now + LongWait(usual_wait_));
    }
  }
  if (result.position == 0) {
    if (result.retry_after < absl::ZeroDuration()) {
      PollSoon(pending.acquire.grant, now);
    } else {
      pending.due = std::min(pending.due, now + result.retry_after + absl::Milliseconds(1));
    }
  }
  if (pending.again) pending.due = now;
  RefuseImpatient(effects);
  UpdatePending(now);
}

void Bidder::OnAcquireFailed(const Bade& bade, const Failed& failed, base::Instant now,
                             Effects& effects) {
  PendingAcquire& pending = *pending_;
  pending.in_flight = false;
  pending.uncertain |= failed.may_have_executed;
  if (!MayPass(failed.why, pending.queued)) {
    FailAll(failed.why, effects);
    return UpdatePending(now);
  }
  if (absl::IsUnavailable(failed.why)) {
    Unreachable(bade.sent, failed.why, now, effects);
  } else {
    FailIf(Patience::kNone, base::Instant::Infinite(), failed.why, effects);
    server_.Heard(now);
  }
  pending.due =
      now + Spread(kFirstBackoff, kLongestBackoff, pending.failures++, pending.acquire.grant);
  if (pending.again) pending.due = now;
  UpdatePending(now);
}

// The server says that the bid was granted, or left the queue, and no message said so.
void Bidder::OnMissed(GrantId grant) {
  if (!IsPending(grant) || !pending_->queued || pending_->claimed) return;
  misses_ = true;
  pending_->exposed = true;
  missed_ = grant;
  missed_since_ = pending_->began;
}

// No message will tell when it is this waiter's turn.
void Bidder::PollSoon(GrantId grant, base::Instant now) {
  if (!IsPending(grant)) return;
  const absl::Duration poll =
      std::max(kFirstPoll, Spread(kFirstPoll * 2, kLongestPoll, pending_->polls++, grant));
  pending_->due = std::min(pending_->due, now + poll);
}

void Bidder::OnGrant(const NewGrant& news, base::Instant now, Effects& effects) {
  if (news.grant == missed_) missed_ = 0;  // it was only slower than the server's answer
  if (!IsPending(news.grant)) return;
  misses_ = false;
  server_.Heard(now);
  pending_->queued = true;  // a message is sent only for a bid that was queued
  const bool exposed = std::exchange(pending_->exposed, true);
  for (const Attempt& attempt : pending_->attempts) {
    if (attempt.number != news.attempt || exposed) continue;
    return OnGrantMessage(news, attempt.sent, now, effects);
  }
  // Others may know its id, or the attempt is too old to be remembered and its deadline has passed.
  ConfirmFirst(now, effects);
}

// A grant that is not enough to work under: the server is asked for the lease before a thread gets
// it. It answers with the token of the present grant, which need not be this one. The head's thread
// asks, if it is there.
void Bidder::ConfirmFirst(base::Instant now, Effects& effects) {
  pending_->claimed = true;
  AskNow(now);
  if (Waiter* const head = queue_.head()) Wake(*head, effects);
}

// ---- How long a thread waits: for a lock that is taken, and for a server that does not answer.

void Bidder::Wake(Waiter& waiter, Effects& effects) {
  if (NeedsWake(waiter)) effects.wakes.push_back(&waiter);
}

void Bidder::Decide(Waiter& waiter, Waiter::State state, Effects& effects) {
  waiter.state = state;
  // What the server has answered since is no silence to be taken along.
  if (state == Waiter::State::kElsewhere) waiter.silent_since = server_.Since(waiter.silent_since);
  if (state != Waiter::State::kGranted) tally_.CountEnd(state);
  Wake(waiter, effects);
}

void Bidder::FailIf(Patience patience, base::Instant begun_by, const absl::Status& why,
                    Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (waiter->patience != patience || begun_by < waiter->began) continue;
    queue_.Remove(*waiter);
    waiter->failure = base::Unshared(why);
    Decide(*waiter, why.ok() ? Waiter::State::kBusy : Waiter::State::kFailed, effects);
  }
}

void Bidder::FailAll(const absl::Status& why, Effects& effects) {
  for (Patience each : {Patience::kNone, Patience::kBounded, Patience::kEndless}) {
    FailIf(each, base::Instant::Infinite(), why, effects);
  }
}

void Bidder::RefuseImpatient(Effects& effects) {
  FailIf(Patience::kNone, base::Instant::Infinite(), absl::OkStatus(), effects);
}

// A bid, sent then, went unanswered.
void Bidder::Unreachable(base::Instant sent, const absl::Status& why, base::Instant now,
                         Effects& effects) {
  base::Instant since = sent;
  if (!server_.silent()) {
    for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) {
      since = std::min(since, server_.Since(waiter->silent_since));
      // From here on it must see to it that it does not wait for too long.
      if (waiter->patience == Patience::kEndless) Wake(*waiter, effects);
    }
  }
  server_.Unheard(since, why);
  if (config_.unreachable_after <= now - server_.since()) {
    FailIf(Patience::kEndless, now - config_.unreachable_after, server_.why(), effects);
  }
}

bool Bidder::IsInTheWay(const Waiter& waiter) const {
  if (!server_.silent()) return false;
  for (const Waiter* other = queue_.head(); other != nullptr; other = other->next) {
    if (other != &waiter && other->patience != Patience::kNone) return true;
  }
  return false;
}

bool Bidder::KnowsWhy(const Waiter& waiter) const {
  return server_.silent() || (pending_ && pending_->queued) || waiter.since <= taken_at_;
}

base::Instant Bidder::GivesUpAt(const Waiter& waiter, base::Instant sent) const {
  if (waiter.patience != Patience::kEndless) return base::Instant::Infinite();
  const auto after = [&](base::Instant silent) {
    return std::max(silent, waiter.began) + config_.unreachable_after;
  };
  const base::Instant met = server_.Since(waiter.silent_since);
  if (server_.silent()) return after(std::min(server_.since(), met));
  const base::Instant asked = std::min(sent, AskedAt(waiter));
  if (asked == base::Instant::Infinite()) return asked;
  // Where nothing went unanswered yet, a healthy server is given a moment.
  return std::min(after(asked) + kAnswerGrace, after(met));
}

base::Instant Bidder::AskedAt(const Waiter&) const {
  const bool asked = pending_ && pending_->in_flight && !pending_->attempts.empty();
  return asked ? pending_->attempts.back().sent : base::Instant::Infinite();
}

void Bidder::GiveUp(Waiter& waiter, Waiter::State as, base::Instant now, Effects& effects) {
  if (waiter.state != Waiter::State::kWaiting) return;
  queue_.Remove(waiter);
  waiter.state = as;
  if (as == Waiter::State::kBusy &&
      (server_.silent() || !KnowsWhy(waiter) || waiter.patience == Patience::kEndless)) {
    waiter.state = Waiter::State::kFailed;
    if (server_.silent()) waiter.failure = base::Unshared(server_.why());
    if (waiter.failure.ok()) {
      waiter.failure = absl::UnavailableError("the server did not answer in time");
    }
  }
  tally_.CountEnd(waiter.state);
  OnGivenUp(now, effects);
}

void Bidder::StopAll(const void* object, base::Instant now, Effects& effects) {
  Waiter* next = nullptr;
  for (Waiter* waiter = queue_.head(); waiter != nullptr; waiter = next) {
    next = waiter->next;
    if (waiter->object != object) continue;
    GiveUp(*waiter, Waiter::State::kStopped, now, effects);
    Wake(*waiter, effects);
  }
}

}  // namespace redlatch::internal
