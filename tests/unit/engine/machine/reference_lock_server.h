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
#include "src/engine/machine/script_io.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

// What the Lua scripts of one simple lock do, naively and in virtual time. Hold numbers are unique
// among all clients here.
class ReferenceLockServer {
 public:
  struct Message {
    int client = 0;
    bool forced = false;  // else a grant
    NewGrant news;        // of a forced release, only the hold counts
  };

  // `claim`: for how long a hand-over by message makes a waiter the owner, if its lease is longer.
  explicit ReferenceLockServer(int clients, absl::Duration claim = absl::InfiniteDuration())
      : subscribed(clients, true), claim_(claim) {}

  Answer Execute(int client, const Send& send, base::Instant at) {
    now_ = at;
    look_ = absl::ZeroDuration();
    missed_ = false;
    std::erase_if(gone_, [&](const auto& tombstone) { return tombstone.second <= at; });
    if (owner_ && owner_->expires <= at) owner_.reset();
    switch (send.operation) {
      case Operation::kAcquire:
        return Noted({.kind = Answer::Kind::kBid, .bid = Acquire(client, send.bid)});
      case Operation::kRenew:
        if (!Owns(send.grant)) return {.kind = Answer::Kind::kNotHeld};
        owner_->expires = std::max(owner_->expires, at + send.lease);
        return {.kind = Answer::Kind::kHeld};
      case Operation::kRelease:
        return Noted(Release(client, send));
      case Operation::kCancel:
        if (Owns(send.grant)) {
          if (send.block > 1) fence -= send.block;
          HandOver(send.grant, send.tombstone, send.lease);
        } else {
          waiters_.erase(send.grant);
          Entomb(send.grant, send.tombstone, send.lease);
          HandOverIfFree();
        }
        return Noted({.kind = Answer::Kind::kCancelled});
    }
    return {};
  }

  void Force(base::Instant at) {
    now_ = at;
    const GrantId grant = owner(at);
    if (grant == 0) return;
    forced.insert(grant);
    messages.push_back({.client = owner_->client, .forced = true, .news = {.grant = grant}});
    HandOver(grant, false, absl::ZeroDuration());
  }

  // A restart without its data; what was held is as good as forced.
  void LoseData(base::Instant at) {
    if (owner(at) != 0) forced.insert(owner_->grant);
    owner_.reset();
    waiters_.clear();
    gone_.clear();
    fence = 0;
  }

  GrantId owner(base::Instant at) const {
    return owner_ && at < owner_->expires ? owner_->grant : 0;
  }
  // The owner and all that wait.
  std::vector<GrantId> Known(base::Instant at) const {
    std::vector<GrantId> known;
    if (owner(at) != 0) known.push_back(owner(at));
    for (const auto& [grant, record] : waiters_) {
      if (at < record.dropped) known.push_back(grant);
    }
    return known;
  }
  // Its tombstone is over.
  bool WasBuried(GrantId grant, base::Instant at) const {
    const auto found = buried_.find(grant);
    return found != buried_.end() && found->second <= at;
  }
  // By which hold a client got a token. After a loss of data two clients may have the same.
  GrantId HoldOf(int client, uint64_t token) const {
    auto after = minted_.upper_bound({client, token});
    return after == minted_.begin() ? 0 : std::prev(after)->second;
  }

  std::vector<bool> subscribed;
  std::vector<Message> messages;
  std::set<GrantId> forced;
  std::set<GrantId> released;
  uint64_t fence = 0;

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
  using Kind = BidAnswer::Kind;

  bool Owns(GrantId grant) const { return owner(now_) == grant; }

  void Entomb(GrantId grant, bool tombstone, absl::Duration lease) {
    if (tombstone) gone_[grant] = buried_[grant] = now_ + lease;
  }

  BidAnswer Granted() {
    return {.kind = Kind::kGranted,
            .token = owner_->first,
            .lease = owner_->expires - now_,
            .others = static_cast<int64_t>(waiters_.size())};
  }

  Answer Noted(Answer answer) const {
    answer.look = look_;
    answer.missed = missed_;
    return answer;
  }

  void Own(int client, const Bid& bid, absl::Duration lease) {
    waiters_.erase(bid.grant);
    const uint64_t first = std::max(fence + 1, static_cast<uint64_t>(now_.nanos() / 1000));
    fence = first + bid.block - 1;
    minted_[{client, first}] = bid.grant;
    owner_ = Owner{client, bid.grant, now_ + lease, first};
  }

  void Enqueue(int client, const Bid& bid) {
    uint64_t ticket = bid.ticket;
    if (ticket == 0) {
      ticket = static_cast<uint64_t>(now_.nanos() / 1000);
      for (const auto& [grant, record] : waiters_) ticket = std::max(ticket, record.ticket + 1);
    }
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
    if (gone_.contains(bid.grant)) return {.kind = Kind::kGone};
    missed_ = bid.attempt > 1 && !waiters_.contains(bid.grant);
    if (Owns(bid.grant)) {
      if (!bid.terms.manual) owner_->expires = std::max(owner_->expires, now_ + bid.terms.lease);
      return Granted();
    }
    if (owner_) {
      const absl::Duration retry_after = owner_->expires - now_;
      if (!bid.wait) return {.kind = Kind::kBusy, .retry_after = retry_after};
      Enqueue(client, bid);
      return Queued(bid.grant, retry_after);
    }
    if (bid.wait) Enqueue(client, bid);
    const std::optional<GrantId> winner = ChooseWinner(bid.grant);
    if (winner && *winner != bid.grant) {
      GrantByMessage(*winner);
      if (!bid.wait) return {.kind = Kind::kBusy, .retry_after = owner_->expires - now_};
      return Queued(bid.grant, owner_->expires - now_);
    }
    Own(client, bid, bid.terms.lease);
    return Granted();
  }

  BidAnswer Queued(GrantId grant, absl::Duration retry_after) {
    const uint64_t ticket = waiters_.at(grant).ticket;
    int64_t position = 0;
    for (const auto& [other, record] : waiters_) position += record.ticket < ticket ? 1 : 0;
    return {.kind = Kind::kQueued,
            .retry_after = absl::Ceil(retry_after, absl::Milliseconds(1)),
            .position = position,
            .ticket = ticket};
  }

  // The first live waiter, as `caller` is by definition; those before it are dropped.
  std::optional<GrantId> ChooseWinner(GrantId caller = 0) {
    std::erase_if(waiters_, [&](const auto& each) { return each.second.dropped <= now_; });
    std::vector<Record> line;
    for (const auto& [grant, record] : waiters_) line.push_back(record);
    std::sort(line.begin(), line.end(),
              [](const Record& a, const Record& b) { return a.ticket < b.ticket; });
    std::optional<GrantId> overdue;
    for (const Record& record : line) {
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
    const absl::Duration claim = std::min(claim_, record.bid.terms.lease);
    Own(record.client, record.bid, claim);
    look_ = claim;
    messages.push_back({.client = record.client,
                        .news = {.grant = winner,
                                 .attempt = record.bid.attempt,
                                 .token = owner_->first,
                                 .claim = claim,
                                 .others = static_cast<int64_t>(waiters_.size())}});
  }

  // Ends the owner's hold.
  void HandOver(GrantId grant, bool tombstone, absl::Duration lease) {
    const std::optional<GrantId> winner = ChooseWinner();
    owner_.reset();
    Entomb(grant, tombstone, lease);
    if (winner) GrantByMessage(*winner);
  }

  void HandOverIfFree() {
    if (owner_) return;
    if (const std::optional<GrantId> winner = ChooseWinner()) GrantByMessage(*winner);
  }

  Answer Release(int client, const Send& send) {
    if (!Owns(send.grant)) {
      waiters_.erase(send.grant);
      Entomb(send.grant, send.tombstone, send.lease);
      HandOverIfFree();
      return {.kind = Answer::Kind::kNotHeld};
    }
    released.insert(send.grant);
    if (fence == send.last_reserved && send.last_used < send.last_reserved) fence = send.last_used;
    HandOver(send.grant, send.tombstone, send.lease);
    Answer answer{.kind = Answer::Kind::kReleased};
    if (send.bid.grant != 0) answer.bid = Acquire(client, send.bid);
    return answer;
  }

  const absl::Duration claim_;
  base::Instant now_;
  absl::Duration look_;  // the notes of the present answer
  bool missed_ = false;
  std::optional<Owner> owner_;
  std::map<GrantId, Record> waiters_;
  std::map<GrantId, base::Instant> gone_;
  std::map<GrantId, base::Instant> buried_;             // all tombstones that ever were
  std::map<std::pair<int, uint64_t>, GrantId> minted_;  // the first token of each grant
  Record overdue_{};
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LOCK_SERVER_H_
