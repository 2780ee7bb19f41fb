// What a bid came to: by the server's answer, or by message.
#include <algorithm>
#include <utility>
#include <variant>

#include "src/engine/machine/bidder.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kFirstPoll = absl::Milliseconds(50);
constexpr absl::Duration kLongestPoll = absl::Milliseconds(500);
constexpr absl::Duration kBehindARelease = absl::Milliseconds(1);

bool MayPass(const absl::Status& failure, bool queued) {
  return absl::IsUnavailable(failure) || (queued && absl::IsResourceExhausted(failure));
}

}  // namespace

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
  pursuit_->queued = true;  // whoever is told by message came after others
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

}  // namespace redlatch::engine
