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
    Grant grant;          // of a forced release, only the hold counts
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
        if (!Owns(send.hold)) return {.kind = Answer::Kind::kNotHeld};
        owner_->expires = std::max(owner_->expires, at + send.lease);
        return {.kind = Answer::Kind::kHeld};
      case Operation::kRelease:
        return Noted(Release(client, send));
      case Operation::kCancel:
        if (Owns(send.hold)) {
          if (send.block > 1) fence -= send.block;
          HandOver(send.hold, send.tombstone, send.lease);
        } else {
          waiters_.erase(send.hold);
          Entomb(send.hold, send.tombstone, send.lease);
          HandOverIfFree();
        }
        return Noted({.kind = Answer::Kind::kCancelled});
    }
    return {};
  }

  void Force(base::Instant at) {
    now_ = at;
    const HoldNumber hold = owner(at);
    if (hold == 0) return;
    forced.insert(hold);
    messages.push_back({.client = owner_->client, .forced = true, .grant = {.hold = hold}});
    HandOver(hold, false, absl::ZeroDuration());
  }

  // A restart without its data; what was held is as good as forced.
  void LoseData(base::Instant at) {
    if (owner(at) != 0) forced.insert(owner_->hold);
    owner_.reset();
    waiters_.clear();
    gone_.clear();
    fence = 0;
  }

  HoldNumber owner(base::Instant at) const {
    return owner_ && at < owner_->expires ? owner_->hold : 0;
  }
  // The owner and all that wait.
  std::vector<HoldNumber> Known(base::Instant at) const {
    std::vector<HoldNumber> known;
    if (owner(at) != 0) known.push_back(owner(at));
    for (const auto& [hold, record] : waiters_) {
      if (at < record.dropped) known.push_back(hold);
    }
    return known;
  }
  // Its tombstone is over.
  bool WasBuried(HoldNumber hold, base::Instant at) const {
    const auto found = buried_.find(hold);
    return found != buried_.end() && found->second <= at;
  }
  // By which hold a client got a token. After a loss of data two clients may have the same.
  HoldNumber HoldOf(int client, uint64_t token) const {
    auto after = minted_.upper_bound({client, token});
    return after == minted_.begin() ? 0 : std::prev(after)->second;
  }

  std::vector<bool> subscribed;
  std::vector<Message> messages;
  std::set<HoldNumber> forced;
  std::set<HoldNumber> released;
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
    HoldNumber hold;
    base::Instant expires;
    uint64_t first;
  };
  using Kind = BidAnswer::Kind;

  bool Owns(HoldNumber hold) const { return owner(now_) == hold; }

  void Entomb(HoldNumber hold, bool tombstone, absl::Duration lease) {
    if (tombstone) gone_[hold] = buried_[hold] = now_ + lease;
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
    waiters_.erase(bid.hold);
    const uint64_t first = std::max(fence + 1, static_cast<uint64_t>(now_.nanos() / 1000));
    fence = first + bid.block - 1;
    minted_[{client, first}] = bid.hold;
    owner_ = Owner{client, bid.hold, now_ + lease, first};
  }

  void Enqueue(int client, const Bid& bid) {
    uint64_t ticket = bid.ticket;
    if (ticket == 0) {
      ticket = static_cast<uint64_t>(now_.nanos() / 1000);
      for (const auto& [hold, record] : waiters_) ticket = std::max(ticket, record.ticket + 1);
    }
    const absl::Duration heartbeat = HeartbeatInterval(bid.terms.lease, absl::Seconds(10));
    const auto [at, fresh] = waiters_.try_emplace(bid.hold, Record{client, bid, ticket, {}, {}});
    Record& record = at->second;
    const uint32_t attempt = fresh ? bid.attempt : std::max(record.bid.attempt, bid.attempt);
    record.bid = bid;
    record.bid.attempt = attempt;
    record.overdue = now_ + heartbeat * 5 / 2;
    for (auto& [hold, each] : waiters_) each.dropped = std::max(each.dropped, now_ + heartbeat * 3);
  }

  BidAnswer Acquire(int client, const Bid& bid) {
    if (gone_.contains(bid.hold)) return {.kind = Kind::kGone};
    missed_ = bid.attempt > 1 && !waiters_.contains(bid.hold);
    if (Owns(bid.hold)) {
      if (!bid.terms.manual) owner_->expires = std::max(owner_->expires, now_ + bid.terms.lease);
      return Granted();
    }
    if (owner_) {
      const absl::Duration retry_after = owner_->expires - now_;
      if (!bid.wait) return {.kind = Kind::kBusy, .retry_after = retry_after};
      Enqueue(client, bid);
      return Queued(bid.hold, retry_after);
    }
    if (bid.wait) Enqueue(client, bid);
    const std::optional<HoldNumber> winner = ChooseWinner(bid.hold);
    if (winner && *winner != bid.hold) {
      GrantByMessage(*winner);
      if (!bid.wait) return {.kind = Kind::kBusy, .retry_after = owner_->expires - now_};
      return Queued(bid.hold, owner_->expires - now_);
    }
    Own(client, bid, bid.terms.lease);
    return Granted();
  }

  BidAnswer Queued(HoldNumber hold, absl::Duration retry_after) {
    const uint64_t ticket = waiters_.at(hold).ticket;
    int64_t position = 0;
    for (const auto& [other, record] : waiters_) position += record.ticket < ticket ? 1 : 0;
    return {.kind = Kind::kQueued,
            .retry_after = absl::Ceil(retry_after, absl::Milliseconds(1)),
            .position = position,
            .ticket = ticket};
  }

  // The first live waiter, as `caller` is by definition; those before it are dropped.
  std::optional<HoldNumber> ChooseWinner(HoldNumber caller = 0) {
    std::erase_if(waiters_, [&](const auto& each) { return each.second.dropped <= now_; });
    std::vector<Record> line;
    for (const auto& [hold, record] : waiters_) line.push_back(record);
    std::sort(line.begin(), line.end(),
              [](const Record& a, const Record& b) { return a.ticket < b.ticket; });
    std::optional<HoldNumber> overdue;
    for (const Record& record : line) {
      if (record.bid.hold == caller) return caller;
      if (subscribed[record.client] && now_ < record.overdue) return record.bid.hold;
      if (subscribed[record.client] && !overdue) {
        overdue = record.bid.hold;
        overdue_ = record;
      }
      waiters_.erase(record.bid.hold);
    }
    if (overdue) waiters_.insert_or_assign(*overdue, overdue_);
    return overdue;
  }

  void GrantByMessage(HoldNumber winner) {
    const Record record = waiters_.at(winner);
    const absl::Duration claim = std::min(claim_, record.bid.terms.lease);
    Own(record.client, record.bid, claim);
    look_ = claim;
    messages.push_back({.client = record.client,
                        .grant = {.hold = winner,
                                  .attempt = record.bid.attempt,
                                  .token = owner_->first,
                                  .claim = claim,
                                  .others = static_cast<int64_t>(waiters_.size())}});
  }

  // Ends the owner's hold.
  void HandOver(HoldNumber hold, bool tombstone, absl::Duration lease) {
    const std::optional<HoldNumber> winner = ChooseWinner();
    owner_.reset();
    Entomb(hold, tombstone, lease);
    if (winner) GrantByMessage(*winner);
  }

  void HandOverIfFree() {
    if (owner_) return;
    if (const std::optional<HoldNumber> winner = ChooseWinner()) GrantByMessage(*winner);
  }

  Answer Release(int client, const Send& send) {
    if (!Owns(send.hold)) {
      waiters_.erase(send.hold);
      Entomb(send.hold, send.tombstone, send.lease);
      HandOverIfFree();
      return {.kind = Answer::Kind::kNotHeld};
    }
    released.insert(send.hold);
    if (fence == send.last_reserved && send.last_used < send.last_reserved) fence = send.last_used;
    HandOver(send.hold, send.tombstone, send.lease);
    Answer answer{.kind = Answer::Kind::kReleased};
    if (send.bid.hold != 0) answer.bid = Acquire(client, send.bid);
    return answer;
  }

  const absl::Duration claim_;
  base::Instant now_;
  absl::Duration look_;  // the notes of the present answer
  bool missed_ = false;
  std::optional<Owner> owner_;
  std::map<HoldNumber, Record> waiters_;
  std::map<HoldNumber, base::Instant> gone_;
  std::map<HoldNumber, base::Instant> buried_;             // all tombstones that ever were
  std::map<std::pair<int, uint64_t>, HoldNumber> minted_;  // the first token of each grant
  Record overdue_{};
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LOCK_SERVER_H_
