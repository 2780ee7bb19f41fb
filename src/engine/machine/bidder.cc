// What the client asks of the server so as to get what its threads wait for.
#include "src/engine/machine/bidder.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "src/base/status.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
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

void Bidder::Pursue(base::Instant now) {
  if (satisfied()) return;
  const Waiter* const head = queue_.head();
  if (head == nullptr) server_.Forget();
  if (pursuit_ && (head == nullptr || pursuit_->bid.terms != head->terms)) CancelPursuit(now);
  if (pursuit_ && pursuit_->looks) AskNow(now);  // whoever was to do so may have left
  if (pursuit_ || head == nullptr) return;
  pursuit_.emplace();
  pursuit_->bid.grant = NextGrant() | (head->terms.stays ? kMayStay : 0);
  pursuit_->bid.terms = head->terms;
  pursuit_->began = now;
  pursuit_->due = now;
}

void Bidder::CancelPursuit(base::Instant now) {
  const Pursuit& pursuit = *pursuit_;
  const bool unanswered = pursuit.in_flight || pursuit.uncertain;
  if (unanswered || pursuit.queued) {
    debts_.Add({
        .send = {.what = ToCancel{.tombstone = unanswered, .block = pursuit.bid.block},
                 .grant = pursuit.bid.grant,
                 .lease = pursuit.bid.terms.lease},
        .expires = now + LongestGhost(pursuit.bid.terms.lease, config_.longest_heartbeat),
        .due = now,
    });
  }
  pursuit_.reset();
}

Bid Bidder::NextBid(base::Instant now, bool contended) {
  Pursuit& pursuit = *pursuit_;
  const Waiter& head = *queue_.head();
  if (pursuit.bid.attempt == 0) {
    const absl::Duration none = absl::ZeroDuration();
    const bool passes_on =
        ((contended && head.options->local_window > none) || head.options->turn > none) &&
        !head.terms.manual && !config_.explicit_owner && config_.sharing.passes_on;
    pursuit.bid.block = passes_on ? kBlock : head.terms.permits;
    // In its turn the client keeps a lock that no thread has, but as a claim, in case its process
    // ends.
    pursuit.bid.claims = passes_on && head.options->turn > none && !head.terms.whole &&
                         !head.terms.stays && !head.terms.acks.any();
  }
  pursuit.bid.wait = false;
  for (const Waiter* waiter = &head; waiter != nullptr; waiter = waiter->next) {
    if (waiter->patience == Patience::kNone) continue;
    pursuit.bid.wait = true;
    break;
  }
  const uint32_t second = SecondOf(now);
  pursuit.bid.calls = !pursuit.bid.wait && called_s_ != second;
  if (pursuit.bid.calls) called_s_ = second;
  ++pursuit.bid.attempt;
  pursuit.bid.listen = pursuit.bid.attempt > 1;
  pursuit.again = pursuit.looks = pursuit.forced = false;
  pursuit.attempts.push_back({.number = pursuit.bid.attempt, .sent = now});
  pursuit.in_flight = true;
  Bid bid = pursuit.bid;
  // Whoever misses message after message comes last, and so keeps nobody waiting for its claims.
  if (misses_) bid.ticket = 0;
  // What is left of a claim is to become the whole lease, also of a manual hold.
  if (pursuit.claimed) bid.terms.manual = false;
  return bid;
}

std::optional<base::Instant> Bidder::TakeMissed() {
  if (std::exchange(missed_, 0) == 0) return std::nullopt;
  return missed_since_;
}

void Bidder::Enqueue(Waiter& waiter, base::Instant now) {
  waiter.since = now;
  queue_.Append(waiter);
  Pursue(now);
  // Whoever does not wait is not kept until a retry is due.
  if (waiter.patience == Patience::kNone && pursuit_ && now < pursuit_->due) pursuit_->due = now;
}

void Bidder::AskNow(base::Instant now) {
  pursuit_->due = now;
  pursuit_->again = pursuit_->in_flight;
}

// By the head's own thread, which is woken for it: nobody is as near.
void Bidder::OnLook(GrantId grant, Effects& effects) {
  Waiter* const head = queue_.head();
  if (!IsPursued(grant) || head == nullptr) return;
  misses_ = false;  // it hears
  if (grant == missed_) missed_ = 0;
  pursuit_->looks = pursuit_->exposed = true;
  pursuit_->again |= pursuit_->in_flight;
  head->poked = true;
  Wake(*head, effects);
}

void Bidder::Poked(Waiter& waiter, base::Instant now, Effects&) {
  waiter.poked = false;
  if (pursuit_ && pursuit_->looks) AskNow(now);
}

void Bidder::OnUnwanted(GrantId grant, absl::Duration lease, uint32_t block, base::Instant now) {
  if (debts_.Has(grant)) return;
  debts_.Add({.send = {.what = ToCancel{.block = block}, .grant = grant, .lease = lease},
              .expires = now + LongestGhost(lease, config_.longest_heartbeat),
              .due = now});
}

Send Bidder::WithBid(Debts::Due due, base::Instant now) {
  auto* const release = std::get_if<ToRelease>(&due.send.what);
  if (release != nullptr && due.first && pursuit_ && pursuit_->bid.attempt == 0 &&
      config_.sharing.passes_on && !config_.several) {
    release->next = NextBid(now, true);  // whoever released is likely to come again
    due.send.missed_since = TakeMissed();
  }
  return std::move(due.send);
}

std::optional<Send> Bidder::NextSend(base::Instant now, absl::Duration) {
  if (auto due = debts_.Next(now)) return WithBid(*std::move(due), now);
  if (pursuit_ && !pursuit_->in_flight && std::max(pursuit_->due, embargo_) <= now) {
    std::optional<Send> send(std::in_place);
    Bid& bid = send->what.emplace<ToAcquire>().bid = NextBid(now, queue_.has_several());
    send->grant = bid.grant;
    send->lease = bid.terms.lease;
    send->sent = now;
    send->missed_since = TakeMissed();
    if (bid.attempt == 1) {
      bids_at_once_ = now - handed_at_ < kHandingOver;
      if (bids_at_once_ && bid.wait && !send->missed_since) {
        send->unread_for = std::clamp(Scaled(usual_wait_, 2, 1), kShortestUnread, kLongestUnread);
      }
    }
    return send;
  }
  return looks_.Next(now);
}

bool Bidder::Wants(const Send& send) const {
  // What ends at the server is to end there; the bid behind a release may be given up: a tombstone
  // sees to that.
  return !std::holds_alternative<ToAcquire>(send.what) || IsPursued(send.grant);
}

// A script handed the lock over; or, with a look of a millisecond, it came to the end of a window,
// and whoever ran it goes on at once.
void Bidder::LookAfter(absl::Duration look, base::Instant now, absl::Duration later) {
  const auto fresh = [this] { return NextGrant(); };
  const bool at_once = look <= absl::Milliseconds(1);
  base::Instant then = base::Instant::Infinite();
  if (later > absl::ZeroDuration()) then = now + later + kLookGrace;
  if (at_once && pursuit_ && pursuit_->queued) {  // its heartbeat goes on as well
    pursuit_->due = std::min(pursuit_->due, now);
    pursuit_->again |= pursuit_->in_flight;
    // The heartbeat does not stand for the look: it may be late, or never come.
    if (!then.is_infinite()) looks_.Add(then, fresh);
    return;
  }
  if (at_once) return looks_.AddAtOnce(now, then, fresh);
  looks_.Add(now + look + kLookGrace, fresh);
}

void Bidder::OnForced(GrantId grant, base::Instant now) {
  if (!IsPursued(grant)) return;
  pursuit_->forced = pursuit_->in_flight;
  pursuit_->exposed = true;
  AskNow(now);
}

void Bidder::OnReconnected(base::Instant now) {
  if (pursuit_) {
    pursuit_->exposed = true;  // by messages that this client may have missed
    AskNow(now);
  }
  debts_.RepeatAll(std::max(now, embargo_));
}

base::Instant Bidder::next_send() const {
  const base::Instant next = std::min(debts_.due(), looks_.due());
  if (!pursuit_ || pursuit_->in_flight) return next;
  return std::min(next, std::max(pursuit_->due, embargo_));
}

void Bidder::AddStateTo(LockStats& stats) const { stats.waiting += waiting(); }

uint64_t Bidder::waiting() const {
  uint64_t waiters = 0;
  for (const Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) ++waiters;
  return waiters;
}

// ---- What a bid came to: by the server's answer, or by message.

void Bidder::OnAnswer(const Send& send, const Answer& answer, base::Instant now, Effects& effects) {
  if (answer.failed() == nullptr) server_.Heard(now);
  if (!std::holds_alternative<ToAcquire>(send.what) &&
      !looks_.OnAnswer(send, answer, now, [this] { return NextGrant(); })) {
    debts_.OnAnswer(send, answer, now, effects);
  }
  if (const Bid* const bid = send.bid()) {
    if (answer.deaf) {
      misses_ = false;  // no message can come: its place in the queue is not to blame
      missed_ = 0;
    } else if (answer.missed) {
      OnMissed(bid->grant);
    }
    OnBidAnswer({.bid = *bid, .sent = send.sent}, answer, now, effects);
    if (answer.deaf) PollSoon(bid->grant, now);
  }
  if (answer.look > absl::ZeroDuration()) LookAfter(answer.look, now, answer.look_later);
}

void Bidder::OnBidAnswer(const Bade& bade, const Answer& answer, base::Instant now,
                         Effects& effects) {
  const Bid& bid = bade.bid;
  if (IsPursued(bid.grant)) {
    if (answer.failed() != nullptr) return OnBidFailed(bade, *answer.failed(), now, effects);
    return OnBid(bade, answer.bid(), now, effects);
  }
  if (OnLateAnswer(bade, answer, now, effects)) return;
  if (std::holds_alternative<BidGranted>(answer.bid()) ||
      std::holds_alternative<BidQueued>(answer.bid())) {
    OnUnwanted(bid.grant, bid.terms.lease, bid.block, now);
  }
}

void Bidder::OnBid(const Bade& bade, const BidAnswer& answer, base::Instant now, Effects& effects) {
  pursuit_->in_flight = false;
  auto& attempts = pursuit_->attempts;
  while (!attempts.empty() && attempts.front().number < bade.bid.attempt) {
    attempts.erase(attempts.begin());
  }
  if (const auto* const granted = std::get_if<BidGranted>(&answer)) {
    return OnBidGranted(bade, *granted, now, effects);
  }
  if (const auto* const queued = std::get_if<BidQueued>(&answer)) {
    return OnQueued(*queued, now, effects);
  }
  if (std::holds_alternative<BidBusy>(answer)) return OnBusy(now, effects);
  if (std::holds_alternative<BidUnmade>(answer)) {
    pursuit_->due = now;
    return;
  }
  pursuit_.reset();
  Pursue(now);
}

void Bidder::OnBidGranted(const Bade& bade, const BidGranted& answer, base::Instant now,
                          Effects& effects) {
  const Bid& bid = bade.bid;
  // What is left of a claim is not the lease that was asked for.
  if (bid.terms.manual && pursuit_->queued && answer.lease < bid.terms.lease / 10 * 9) {
    return ConfirmFirst(now, effects);
  }
  OnGranted({.grant = bid.grant,
             .attempt = bid.attempt,
             .token = answer.token,
             .claim = answer.lease,
             .others = answer.others},
            {.lease = answer.lease,
             .asked = bade.sent,
             .claim = bid.claims && answer.lease < bid.terms.lease},
            now, effects);
}

void Bidder::OnBusy(base::Instant now, Effects& effects) {
  taken_at_ = now;
  // It may be a grant of ours that keeps us out, whose release was overtaken: ask behind that.
  if (debts_.Hurry(now)) {
    pursuit_->due = now + kBehindARelease;
    return;
  }
  RefuseImpatient(effects);
  pursuit_->due = now;
  Pursue(now);
}

void Bidder::OnQueued(const BidQueued& answer, base::Instant now, Effects& effects) {
  Pursuit& pursuit = *pursuit_;
  debts_.Hurry(now);
  taken_at_ = now;
  pursuit.queued = true;
  pursuit.claimed = false;
  pursuit.failures = 0;
  pursuit.bid.ticket = answer.ticket;
  OnTold(answer.told);
  pursuit.due = now + HeartbeatInterval(pursuit.bid.terms.lease, config_.longest_heartbeat);
  if (pursuit.bid.attempt == 1) {
    pursuit.began = now;
    if (usual_wait_ > absl::ZeroDuration()) {
      pursuit.due = std::min(pursuit.due, now + LongWait(usual_wait_));
    }
  }
  if (answer.position == 0) {
    if (answer.retry_after < absl::ZeroDuration()) {
      PollSoon(pursuit.bid.grant, now);
    } else {
      pursuit.due = std::min(pursuit.due, now + answer.retry_after + absl::Milliseconds(1));
    }
  }
  if (pursuit.again) pursuit.due = now;
  RefuseImpatient(effects);
  Pursue(now);
}

void Bidder::OnBidFailed(const Bade& bade, const Failed& failed, base::Instant now,
                         Effects& effects) {
  Pursuit& pursuit = *pursuit_;
  pursuit.in_flight = false;
  pursuit.uncertain |= failed.may_have_executed;
  if (!MayPass(failed.why, pursuit.queued)) {
    FailAll(failed.why, effects);
    return Pursue(now);
  }
  if (absl::IsUnavailable(failed.why)) {
    Unreachable(bade.sent, failed.why, now, effects);
  } else {
    FailIf(Patience::kNone, base::Instant::Infinite(), failed.why, effects);
    server_.Heard(now);
  }
  pursuit.due = now + Spread(kFirstBackoff, kLongestBackoff, pursuit.failures++, pursuit.bid.grant);
  if (pursuit.again) pursuit.due = now;
  Pursue(now);
}

// The server says that the bid was granted, or left the queue, and no message said so.
void Bidder::OnMissed(GrantId grant) {
  if (!IsPursued(grant) || !pursuit_->queued || pursuit_->claimed) return;
  misses_ = true;
  pursuit_->exposed = true;
  missed_ = grant;
  missed_since_ = pursuit_->began;
}

// No message will tell when it is this waiter's turn.
void Bidder::PollSoon(GrantId grant, base::Instant now) {
  if (!IsPursued(grant)) return;
  const absl::Duration poll =
      std::max(kFirstPoll, Spread(kFirstPoll * 2, kLongestPoll, pursuit_->polls++, grant));
  pursuit_->due = std::min(pursuit_->due, now + poll);
}

void Bidder::OnGrant(const NewGrant& news, base::Instant now, Effects& effects) {
  if (news.grant == missed_) missed_ = 0;  // it was only slower than the server's answer
  if (!IsPursued(news.grant)) return;
  misses_ = false;
  server_.Heard(now);
  pursuit_->queued = true;  // a message is sent only for a bid that was queued
  const bool exposed = std::exchange(pursuit_->exposed, true);
  for (const Attempt& attempt : pursuit_->attempts) {
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
  pursuit_->claimed = true;
  AskNow(now);
  if (Waiter* const head = queue_.head()) Wake(*head, effects);
}

// ---- How long a thread waits: for a lock that is taken, and for a server that does not answer.

void Bidder::Wake(Waiter& waiter, Effects& effects) {
  if (Rouse(waiter)) effects.wakes.push_back(&waiter);
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
  return server_.silent() || (pursuit_ && pursuit_->queued) || waiter.since <= taken_at_;
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
  const bool asked = pursuit_ && pursuit_->in_flight && !pursuit_->attempts.empty();
  return asked ? pursuit_->attempts.back().sent : base::Instant::Infinite();
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

}  // namespace redlatch::engine
