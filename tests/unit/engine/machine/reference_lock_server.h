#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LOCK_SERVER_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LOCK_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/unit/engine/machine/reference_server.h"

namespace redlatch::engine {

// What the Lua scripts of one simple lock do.
class ReferenceLockServer final : public ReferenceServer {
 public:
  void Force(base::Instant at) {
    Tick(at);
    const GrantId grant = owner(at);
    if (grant == 0) return;
    forced.insert(grant);
    Tell(owner_->client, {.forced = true, .news = {.grant = grant}});
    HandOver();
  }

  // A restart without its data; what was held is as good as forced.
  void LoseData(base::Instant at) {
    if (owner(at) != 0) forced.insert(owner_->grant);
    owner_.reset();
    waiters_.clear();
    ForgetTombstones();
    fence_ = {};
  }

  GrantId owner(base::Instant at) const {
    return owner_ && at < owner_->expires ? owner_->grant : 0;
  }
  std::vector<std::pair<GrantId, int>> Known(base::Instant at) override {
    std::vector<std::pair<GrantId, int>> known;
    if (owner(at) != 0) known.emplace_back(owner(at), owner_->client);
    for (const auto& [grant, record] : waiters_) {
      if (at < record.dropped) known.emplace_back(grant, record.client);
    }
    return known;
  }
  // By which hold a client got a token. After a loss of data two clients may have the same.
  GrantId HoldOf(int client, uint64_t token) const {
    auto after = minted_.upper_bound({client, token});
    return after == minted_.begin() ? 0 : std::prev(after)->second;
  }

  std::set<GrantId> forced;
  std::set<GrantId> released;
  // How far a first token was ahead of the clock, at most, if no release was forced.
  int64_t most_ahead = 0;

 private:
  struct Record {
    int client;
    Bid bid;
    uint64_t ticket;
    base::Instant overdue;
    base::Instant dropped;  // when the keys expire
  };
  struct Owner {
    int client;
    GrantId grant;
    base::Instant expires;
    uint64_t first;
  };

  void Lapse() override {
    if (owner_ && owner_->expires <= now_) owner_.reset();
  }

  Answer Perform(const Caller& caller, const Send& send) override {
    if (const auto* acquire = std::get_if<ToAcquire>(&send.what)) {
      return {.what = Acquire(caller.client, acquire->bid)};
    }
    const bool owns = Owns(send.grant);
    if (std::holds_alternative<ToRenew>(send.what)) {
      if (!owns) return {.what = NotHeld()};
      owner_->expires = std::max(owner_->expires, now_ + send.lease);
      if (!MayStay(send.grant)) return {.what = StillHeld()};
      return {.what = StillHeld{.others = static_cast<int64_t>(waiters_.size()),
                                .last_token = fence_.Extend(send, Micros(owner_->expires))}};
    }
    const auto* const release = std::get_if<ToRelease>(&send.what);
    if (!owns) {
      waiters_.erase(send.grant);
      HandOverIfFree();
      if (release == nullptr) return {.what = Cancelled()};
      return {.what = NotHeld()};
    }
    if (release == nullptr) {
      const uint32_t block = As<ToCancel>(send).block;
      if (block > 1) fence_.last -= block;
      HandOver();
      return {.what = Cancelled()};
    }
    released.insert(send.grant);
    fence_.GiveBack(send);
    HandOver();
    if (const Bid* const next = send.bid()) {
      return {.what = Freed{Acquire(caller.client, *next)}};
    }
    return {.what = Freed()};
  }

  static uint64_t Micros(base::Instant at) { return static_cast<uint64_t>(at.nanos() / 1000); }
  void CallOwner() {
    if (MayStay(owner_->grant)) {
      Tell(owner_->client, {.wanted = true, .news = {.grant = owner_->grant}});
    }
  }
  bool Owns(GrantId grant) const { return owner(now_) == grant; }

  BidAnswer Granted() {
    return BidGranted{.token = owner_->first,
                      .lease = owner_->expires - now_,
                      .others = static_cast<int64_t>(waiters_.size())};
  }

  void Own(int client, const Bid& bid, absl::Duration lease) {
    waiters_.erase(bid.grant);
    const uint64_t first = fence_.Reserve(bid.block, Micros(now_));
    if (forced.empty())
      most_ahead = std::max(most_ahead, static_cast<int64_t>(first - Micros(now_)));
    minted_[{client, first}] = bid.grant;
    owner_ = Owner{client, bid.grant, now_ + lease, first};
  }

  void Enqueue(int client, const Bid& bid) {
    const uint64_t ticket = bid.ticket == 0 ? NewTicket(waiters_) : bid.ticket;
    const absl::Duration heartbeat = HeartbeatInterval(bid.terms.lease, absl::Seconds(10));
    const auto [at, fresh] = waiters_.try_emplace(bid.grant, Record{client, bid, ticket, {}, {}});
    Record& record = at->second;
    const uint32_t attempt = fresh ? bid.attempt : std::max(record.bid.attempt, bid.attempt);
    record.bid = bid;
    record.bid.attempt = attempt;
    record.overdue = now_ + heartbeat * 5 / 2;
    for (auto& [grant, each] : waiters_)
      each.dropped = std::max(each.dropped, now_ + heartbeat * 3);
  }

  BidAnswer Acquire(int client, const Bid& bid) {
    if (IsBuried(bid.grant)) return BidGone();
    missed_ = bid.attempt > 1 && !waiters_.contains(bid.grant);
    if (Owns(bid.grant)) {
      if (!bid.terms.manual) owner_->expires = std::max(owner_->expires, now_ + LeaseOf(bid));
      return Granted();
    }
    if (owner_) {
      const absl::Duration retry_after = owner_->expires - now_;
      if (!bid.wait && bid.calls) CallOwner();
      if (!bid.wait) return BidBusy();
      Enqueue(client, bid);
      if (Position(waiters_, waiters_.at(bid.grant).ticket) == 0) CallOwner();
      return Queued(bid.grant, retry_after);
    }
    if (bid.wait) Enqueue(client, bid);
    const std::optional<GrantId> winner = ChooseWinner(bid.grant);
    if (winner && *winner != bid.grant) {
      GrantByMessage(*winner);
      if (!bid.wait) return BidBusy();
      return Queued(bid.grant, owner_->expires - now_);
    }
    Own(client, bid, LeaseOf(bid));
    return Granted();
  }

  BidAnswer Queued(GrantId grant, absl::Duration retry_after) {
    const uint64_t ticket = waiters_.at(grant).ticket;
    return BidQueued{.retry_after = absl::Ceil(retry_after, absl::Milliseconds(1)),
                     .position = Position(waiters_, ticket),
                     .ticket = ticket};
  }

  // The first live waiter, as `caller` is by definition; those before it are dropped.
  std::optional<GrantId> ChooseWinner(GrantId caller = 0) {
    std::erase_if(waiters_, [&](const auto& each) { return each.second.dropped <= now_; });
    std::optional<GrantId> overdue;
    for (const Record& record : InTurn(waiters_)) {
      if (record.bid.grant == caller) return caller;
      if (subscribed[record.client] && now_ < record.overdue) return record.bid.grant;
      if (subscribed[record.client] && !overdue) {
        overdue = record.bid.grant;
        overdue_ = record;
      }
      waiters_.erase(record.bid.grant);
    }
    if (overdue) waiters_.insert_or_assign(*overdue, overdue_);
    return overdue;
  }

  void GrantByMessage(GrantId winner) {
    const Record record = waiters_.at(winner);
    look_ = ClaimOf(record.bid);
    Own(record.client, record.bid, look_);
    Tell(record.client, {.news = {.grant = winner,
                                  .attempt = record.bid.attempt,
                                  .token = owner_->first,
                                  .claim = look_,
                                  .others = static_cast<int64_t>(waiters_.size())}});
  }

  // Ends the owner's hold.
  void HandOver() {
    owner_.reset();
    HandOverIfFree();
  }

  void HandOverIfFree() {
    if (owner_) return;
    if (const std::optional<GrantId> winner = ChooseWinner()) GrantByMessage(*winner);
  }

  std::optional<Owner> owner_;
  Fence fence_;
  std::map<GrantId, Record> waiters_;
  std::map<std::pair<int, uint64_t>, GrantId> minted_;  // the first token of each grant
  Record overdue_{};
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LOCK_SERVER_H_
