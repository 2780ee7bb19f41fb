#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LATCH_SERVER_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LATCH_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/unit/engine/machine/reference_server.h"

namespace redlatch::engine {

// What the Lua scripts of latches of one name promise.
class ReferenceLatchServer final : public ReferenceServer {
 public:
  static constexpr absl::Duration kLongestHeartbeat = absl::Seconds(10);
  static constexpr absl::Duration kTtl = absl::Hours(1);

  // If it opens, `dies` before all are told.
  void CountDown(int by, base::Instant at, bool dies = false) {
    Tick(at);
    count = std::max(count - by, 0);
    if (count > 0) return;
    opened.insert(incarnation);
    do {
      Wake();
    } while (unfinished_ && !dies);
  }
  // The latch is lost, with its queue or without, and perhaps made anew with `fresh_count`.
  void Vanish(bool with_queue, int fresh_count) {
    vanished.insert(incarnation);
    ++incarnation;
    count = fresh_count;
    if (with_queue) waiters_.clear();
    if (count == 0) opened.insert(incarnation);
  }

  std::vector<std::pair<GrantId, int>> Known(base::Instant at) override {
    Tick(at);
    std::vector<std::pair<GrantId, int>> known;
    for (const auto& [grant, each] : waiters_) known.emplace_back(grant, each.caller.client);
    return known;
  }

  size_t window = 64;  // how many of the queue a script tells
  int count = 1;
  int incarnation = 1;
  std::set<int> opened, vanished;   // incarnations
  std::vector<int> incarnation_of;  // by client: the latch that it knows

 private:
  struct Waiting {
    Caller caller;
    Bid bid;
    uint64_t ticket;
  };

  void Lapse() override {
    if (queue_expires_ <= now_) waiters_.clear();
  }

  // Of the latch that the client knows, which is not always the present one.
  Answer Perform(const Caller& caller, const Send& send) override {
    if (std::holds_alternative<ToCancel>(send.what)) {
      waiters_.erase(send.grant);
      Wake();
      return {.what = Cancelled()};
    }
    if (!std::holds_alternative<ToAcquire>(send.what)) {
      return {.what = Failed{.why = absl::InternalError("no script")}};
    }
    return Acquire(caller, BidOf(send));
  }

  // At an open latch a window of those who wait is told; somebody is to go on at once.
  void Wake() {
    if (count > 0) return;
    size_t told = 0;
    for (const Waiting& each : InTurn(waiters_)) {
      if (told++ == window) break;
      waiters_.erase(each.bid.grant);
      const int client = each.caller.client;
      if (incarnation_of[client] != incarnation) continue;
      Tell(client, {.news = {.grant = each.bid.grant,
                             .attempt = each.bid.attempt,
                             .claim = each.bid.terms.lease}});
    }
    unfinished_ = !waiters_.empty();
  }

  Answer Acquire(const Caller& caller, const Bid& bid) {
    const auto answer = [](const BidAnswer& what) { return Answer{.what = what}; };
    if (IsBuried(bid.grant)) return answer(BidGone());
    if (incarnation_of[caller.client] != incarnation) {
      waiters_.erase(bid.grant);
      return {.what = Failed{.why = absl::AbortedError("vanished")}};
    }
    if (count == 0) {
      waiters_.erase(bid.grant);
      Wake();
      return answer(BidGranted{.lease = bid.terms.lease});
    }
    if (!bid.wait) return answer(BidBusy());
    return answer(Enqueue(caller, bid));
  }

  BidAnswer Enqueue(const Caller& caller, const Bid& bid) {
    Waiting waiting{caller, bid, bid.ticket};
    if (const auto known = waiters_.find(bid.grant); known != waiters_.end()) {
      waiting.ticket = known->second.ticket;
      waiting.bid.attempt = std::max(bid.attempt, known->second.bid.attempt);
    } else if (bid.ticket == 0) {
      waiting.ticket = NewTicket(waiters_);
    }
    if (waiters_.empty()) queue_expires_ = now_;
    waiters_.insert_or_assign(bid.grant, waiting);
    queue_expires_ =
        std::max(queue_expires_, now_ + 3 * HeartbeatInterval(bid.terms.lease, kLongestHeartbeat));
    return BidQueued{.retry_after = kTtl,
                     .position = Position(waiters_, waiting.ticket),
                     .ticket = waiting.ticket};
  }

  std::map<GrantId, Waiting> waiters_;
  base::Instant queue_expires_;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_LATCH_SERVER_H_
