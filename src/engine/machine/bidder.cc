// What the client asks of the server so as to get what its threads wait for.
#include "src/engine/machine/bidder.h"

#include <algorithm>
#include <utility>
#include <variant>

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

}  // namespace redlatch::engine
