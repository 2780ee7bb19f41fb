#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LATCH_SERVER_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LATCH_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "src/engine/machine/script_io.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

// What the Lua scripts of latches of one name promise, naively and in virtual time. Hold numbers
// are unique among all clients here.
class ReferenceLatchServer {
 public:
  static constexpr absl::Duration kLongestHeartbeat = absl::Seconds(10);
  static constexpr absl::Duration kTtl = absl::Hours(1);

  struct Caller {
    int client = 0;
    int machine = 0;
  };
  struct Message {
    int client = 0;
    bool forced = false;  // never
    NewGrant news;
  };

  // Of the latch that the client knows, which is not always the present one.
  Answer Execute(const Caller& caller, const Send& send, base::Instant at) {
    Tick(at);
    if (send.operation == Operation::kCancel) {
      waiters_.erase(send.grant);
      if (send.tombstone) gone_[send.grant] = buried_[send.grant] = at + send.lease;
      return {.kind = Answer::Kind::kCancelled, .look = Wake()};
    }
    if (send.operation != Operation::kAcquire) return {.failure = absl::InternalError("no script")};
    return Acquire(caller, send.bid);
  }

  // If it opens, `dies` before all are told.
  void CountDown(int by, base::Instant at, bool dies = false) {
    Tick(at);
    count = std::max(count - by, 0);
    if (count > 0) return;
    opened.insert(incarnation);
    while (Wake() > absl::ZeroDuration() && !dies) {
    }
  }
  // The latch is lost, with its queue or without, and perhaps made anew with `fresh_count`.
  void Vanish(bool with_queue, int fresh_count) {
    vanished.insert(incarnation);
    ++incarnation;
    count = fresh_count;
    if (with_queue) waiters_.clear();
    if (count == 0) opened.insert(incarnation);
  }

  // Who waits, with their clients.
  std::vector<std::pair<GrantId, int>> Known(base::Instant at) {
    Tick(at);
    std::vector<std::pair<GrantId, int>> known;
    for (const auto& [grant, each] : waiters_) known.emplace_back(grant, each.caller.client);
    return known;
  }
  bool WasBuried(GrantId grant, base::Instant at) const {  // its tombstone is over
    const auto found = buried_.find(grant);
    return found != buried_.end() && found->second <= at;
  }

  size_t window = 64;  // how many of the queue a script tells
  int count = 1;
  int incarnation = 1;
  std::set<int> opened, vanished;   // incarnations
  std::vector<int> incarnation_of;  // by client: the latch that it knows
  std::vector<bool> subscribed;     // by client
  std::vector<Message> messages;

 private:
  struct Waiting {
    Caller caller;
    Bid bid;
    uint64_t ticket;
  };
  using Kind = BidAnswer::Kind;

  // At an open latch a window of those who wait is told; the look is to go on at once.
  absl::Duration Wake() {
    if (count > 0) return absl::ZeroDuration();
    for (size_t told = 0; told < window && !waiters_.empty(); ++told) {
      const auto first = std::min_element(
          waiters_.begin(), waiters_.end(),
          [](const auto& a, const auto& b) { return a.second.ticket < b.second.ticket; });
      const Waiting each = first->second;
      waiters_.erase(first);
      const int client = each.caller.client;
      if (incarnation_of[client] != incarnation || !subscribed[client]) continue;
      messages.push_back({.client = client,
                          .news = {.grant = each.bid.grant,
                                   .attempt = each.bid.attempt,
                                   .claim = each.bid.terms.lease}});
    }
    return waiters_.empty() ? absl::ZeroDuration() : absl::Milliseconds(1);
  }

  void Tick(base::Instant at) {
    now_ = at;
    std::erase_if(gone_, [&](const auto& each) { return each.second <= at; });
    if (queue_expires_ <= at) waiters_.clear();
  }

  Answer Acquire(const Caller& caller, const Bid& bid) {
    const auto answer = [](const BidAnswer& what) {
      return Answer{.kind = Answer::Kind::kBid, .bid = what};
    };
    if (gone_.contains(bid.grant)) return answer({.kind = Kind::kGone});
    if (incarnation_of[caller.client] != incarnation) {
      waiters_.erase(bid.grant);
      return {.failure = absl::AbortedError("vanished")};
    }
    if (count == 0) {
      waiters_.erase(bid.grant);
      Answer granted = answer({.kind = Kind::kGranted, .lease = bid.terms.lease});
      granted.look = Wake();
      return granted;
    }
    if (!bid.wait) return answer({.kind = Kind::kBusy, .retry_after = kTtl});
    return answer(Enqueue(caller, bid));
  }

  BidAnswer Enqueue(const Caller& caller, const Bid& bid) {
    Waiting waiting{caller, bid, bid.ticket};
    if (const auto known = waiters_.find(bid.grant); known != waiters_.end()) {
      waiting.ticket = known->second.ticket;
      waiting.bid.attempt = std::max(bid.attempt, known->second.bid.attempt);
    } else if (bid.ticket == 0) {
      waiting.ticket = static_cast<uint64_t>(now_.nanos() / 1000);
      for (const auto& [grant, each] : waiters_) {
        waiting.ticket = std::max(waiting.ticket, each.ticket + 1);
      }
    }
    if (waiters_.empty()) queue_expires_ = now_;
    waiters_.insert_or_assign(bid.grant, waiting);
    queue_expires_ =
        std::max(queue_expires_, now_ + 3 * HeartbeatInterval(bid.terms.lease, kLongestHeartbeat));
    int64_t position = 0;
    for (const auto& [grant, each] : waiters_) position += each.ticket < waiting.ticket ? 1 : 0;
    return {
        .kind = Kind::kQueued, .retry_after = kTtl, .position = position, .ticket = waiting.ticket};
  }

  base::Instant now_;
  std::map<GrantId, Waiting> waiters_;
  base::Instant queue_expires_;
  std::map<GrantId, base::Instant> gone_;
  std::map<GrantId, base::Instant> buried_;  // all tombstones that ever were
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LATCH_SERVER_H_
