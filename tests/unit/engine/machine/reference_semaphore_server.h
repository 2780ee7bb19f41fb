#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_SEMAPHORE_SERVER_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_SEMAPHORE_SERVER_H_

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

// What the Lua scripts of one semaphore promise.
class ReferenceSemaphoreServer final : public ReferenceServer {
 public:
  static constexpr absl::Duration kLongestHeartbeat = absl::Seconds(10);

  struct Waiting {
    Caller caller;
    Bid bid;
    uint64_t ticket = 0;
    base::Instant asked;
  };

  // Whoever waits for more is told to ask again.
  void SetCapacity(uint32_t wanted, base::Instant at) {
    Tick(at);
    capacity = wanted;
    set_ = true;
    std::erase_if(waiters_, [&](const auto& each) {
      const Waiting& waiting = each.second;
      if (waiting.bid.block <= wanted) return false;
      Tell(waiting.caller.client, {.forced = true, .news = {.grant = waiting.bid.grant}});
      told.insert(waiting.bid.grant);
      return true;
    });
    SettleAll();
  }

  void ForceRelease(base::Instant at) {
    Tick(at);
    for (const auto& [grant, each] : holds_) {
      forced.insert(grant);
      Tell(each.caller.client, {.forced = true, .news = {.grant = grant}});
    }
    holds_.clear();
    SettleAll();
  }

  bool Has(GrantId grant, base::Instant at) const {
    const auto found = holds_.find(grant);
    return found != holds_.end() && at < found->second.expires;
  }
  // Who waits, in no order.
  std::vector<Waiting> queue(base::Instant at) {
    Tick(at);
    std::vector<Waiting> all;
    for (const auto& [grant, each] : waiters_) all.push_back(each);
    return all;
  }
  std::vector<std::pair<GrantId, int>> Known(base::Instant at) override {
    Tick(at);
    std::vector<std::pair<GrantId, int>> known;
    for (const auto& [grant, each] : holds_) known.emplace_back(grant, each.caller.client);
    for (const auto& [grant, each] : waiters_) known.emplace_back(grant, each.caller.client);
    return known;
  }

  size_t window = 64;  // how many of the queue a script looks at
  std::optional<uint32_t> capacity;
  std::vector<GrantId> granted;             // in their order; for the test to clear
  std::set<GrantId> released;               // by their clients
  std::set<GrantId> forced, refused, told;  // told: to ask again, by SetCapacity()

 private:
  struct Hold {
    Caller caller;
    base::Instant expires;
    uint32_t permits;
  };

  Answer Perform(const Caller& caller, const Send& send) override {
    const auto mine = holds_.find(send.grant);
    const bool held = mine != holds_.end();
    if (std::holds_alternative<ToAcquire>(send.what)) return Acquire(caller, BidOf(send));
    if (std::holds_alternative<ToRenew>(send.what)) {
      if (!held) return {.what = NotHeld()};
      mine->second.expires = std::max(mine->second.expires, now_ + send.lease);
      return {.what = StillHeld()};
    }
    const bool cancels = std::holds_alternative<ToCancel>(send.what);
    if (held) {
      holds_.erase(mine);
      if (!cancels) released.insert(send.grant);
    } else {
      waiters_.erase(send.grant);
    }
    Settle(nullptr);
    if (cancels) return {.what = Cancelled()};
    if (!held) return {.what = NotHeld()};
    return {.what = Freed()};
  }

  void Lapse() override {
    std::erase_if(holds_, [&](const auto& each) { return each.second.expires <= now_; });
    if (queue_expires_ <= now_) waiters_.clear();
  }
  int64_t Free() const {
    int64_t free = *capacity;
    for (const auto& [grant, each] : holds_) free -= each.permits;
    return free;
  }

  Answer Acquire(const Caller& caller, const Bid& bid) {
    if (IsBuried(bid.grant)) return {.what = BidGone()};
    const uint32_t actual = capacity.value_or(bid.terms.capacity);
    if ((actual != bid.terms.capacity && !set_) || bid.block > actual) {
      refused.insert(bid.grant);
      return {.what = Failed{.why = absl::FailedPreconditionError("refused")}};
    }
    capacity = actual;
    if (const auto mine = holds_.find(bid.grant); mine != holds_.end()) {
      base::Instant& expires = mine->second.expires;
      if (!bid.terms.manual) expires = std::max(expires, now_ + bid.terms.lease);
      missed_ = bid.attempt > 1;
      waiters_.erase(bid.grant);
      return Granted(expires - now_);
    }
    Waiting request{.caller = caller, .bid = bid, .ticket = bid.ticket, .asked = now_};
    const auto known = waiters_.find(bid.grant);
    missed_ = bid.attempt > 1 && known == waiters_.end();
    if (known != waiters_.end()) {
      const Waiting& record = known->second;
      request.ticket = bid.ticket == 0 ? record.ticket : std::min(bid.ticket, record.ticket);
      request.bid.attempt = std::max(bid.attempt, record.bid.attempt);
    } else if (bid.ticket == 0) {
      request.ticket = NewTicket(waiters_);
    }
    Settle(&request);
    if (holds_.contains(bid.grant)) return Granted(bid.terms.lease);
    return {.what = StayOut(request)};
  }
  static Answer Granted(absl::Duration lease) { return {.what = BidGranted{.lease = lease}}; }

  // What the one that sets a capacity or forces a release goes on with.
  void SettleAll() {
    do {
      unfinished_ = false;
      Settle(nullptr);
    } while (unfinished_);
  }
  // Lets in who may now, in turn: the live as long as there are enough permits for the next, then
  // the overdue. Who asks and would wait is live, and comes at its ticket; who would not wait comes
  // last. If the queue goes on behind the window, those before who do not get in leave.
  void Settle(const Waiting* request) {
    if (!capacity) return;
    const bool in_queue = request && waiters_.contains(request->bid.grant);
    const bool stands = request && (request->bid.wait || in_queue);
    std::vector<Waiting> late;
    const bool whole = waiters_.size() < window;
    size_t seen = 0;
    for (const Waiting& each : InTurn(waiters_, request, stands)) {
      if (Free() <= 0) return;
      const bool asks = request && each.bid.grant == request->bid.grant;
      if (!asks || in_queue) ++seen;
      if (seen > window || (!whole && asks && !in_queue && seen == window)) break;
      if (!asks && (!subscribed[each.caller.client] || each.bid.block > *capacity)) {
        waiters_.erase(each.bid.grant);
      } else if (!asks && Overdue(each)) {
        late.push_back(each);
      } else {
        if (!LetIn(each, request)) return;
        for (const Waiting& overtaken : late) waiters_.erase(overtaken.bid.grant);
        late.clear();
      }
    }
    if (Free() <= 0) return;
    if (!whole) {
      for (const Waiting& each : late) waiters_.erase(each.bid.grant);
      unfinished_ = true;
      return;
    }
    for (const Waiting& each : late) {
      if (!LetIn(each, request)) return;
    }
    if (request && !stands) LetIn(*request, request);
  }
  bool Overdue(const Waiting& waiting) const {
    const absl::Duration lease = waiting.bid.terms.lease;
    return waiting.asked + HeartbeatInterval(lease, kLongestHeartbeat) * 5 / 2 < now_;
  }
  bool LetIn(const Waiting& waiting, const Waiting* request) {
    const Bid& bid = waiting.bid;
    if (bid.block > Free()) return false;
    waiters_.erase(bid.grant);
    const bool asks = request && bid.grant == request->bid.grant;
    const absl::Duration lasting = asks ? bid.terms.lease : ClaimOf(bid);
    holds_[bid.grant] = {waiting.caller, now_ + lasting, bid.block};
    granted.push_back(bid.grant);
    if (asks) return true;
    look_ = std::max(look_, lasting);
    Tell(waiting.caller.client,
         {.news = {.grant = bid.grant, .attempt = bid.attempt, .claim = lasting}});
    return true;
  }

  BidAnswer StayOut(const Waiting& request) {
    const absl::Duration heartbeat = HeartbeatInterval(request.bid.terms.lease, kLongestHeartbeat);
    base::Instant until = now_ + heartbeat;
    if (!holds_.empty()) until = base::Instant::Infinite();
    for (const auto& [grant, each] : holds_) until = std::min(until, each.expires);
    const absl::Duration retry_after = absl::Ceil(until - now_, absl::Milliseconds(1));
    if (!request.bid.wait) return BidBusy();

    if (waiters_.empty()) queue_expires_ = now_;
    waiters_[request.bid.grant] = request;
    queue_expires_ = std::max(queue_expires_, now_ + 3 * heartbeat);
    return BidQueued{.retry_after = retry_after,
                     .position = Position(waiters_, request.ticket),
                     .ticket = request.ticket};
  }

  bool set_ = false;  // the capacity, by SetCapacity()
  std::map<GrantId, Hold> holds_;
  std::map<GrantId, Waiting> waiters_;
  base::Instant queue_expires_;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_SEMAPHORE_SERVER_H_
