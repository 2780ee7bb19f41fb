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
#include "src/engine/machine/script_io.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

// What the Lua scripts of one semaphore promise, naively and in virtual time. Hold numbers are
// unique among all clients here.
class ReferenceSemaphoreServer {
 public:
  static constexpr absl::Duration kLongestHeartbeat = absl::Seconds(10);

  struct Caller {
    int client = 0;
    int machine = 0;  // unique among all clients
  };
  struct Message {
    int client = 0;
    bool forced = false;
    NewGrant news;
  };
  struct Waiting {
    Caller caller;
    Bid bid;
    uint64_t ticket = 0;
    base::Instant asked;
  };

  Answer Execute(const Caller& caller, const Send& send, base::Instant at) {
    Answer answer = Perform(caller, send, at);
    answer.look = look_;
    if (unfinished_) {
      answer.look_later = std::exchange(answer.look, absl::Milliseconds(1));
    }
    answer.missed = missed_;
    return answer;
  }

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
  // Holders and all that wait, with their clients.
  std::vector<std::pair<GrantId, int>> Known(base::Instant at) {
    Tick(at);
    std::vector<std::pair<GrantId, int>> known;
    for (const auto& [grant, each] : holds_) known.emplace_back(grant, each.caller.client);
    for (const auto& [grant, each] : waiters_) known.emplace_back(grant, each.caller.client);
    return known;
  }
  bool WasBuried(GrantId grant, base::Instant at) const {  // its tombstone is over
    const auto found = buried_.find(grant);
    return found != buried_.end() && found->second <= at;
  }

  // For how long a hand-over by message makes a waiter a holder, if its lease is longer.
  absl::Duration claim = absl::InfiniteDuration();
  size_t window = 64;  // how many of the queue a script looks at
  std::optional<uint32_t> capacity;
  std::vector<bool> subscribed;  // by client
  std::vector<Message> messages;
  std::vector<GrantId> granted;             // in their order; for the test to clear
  std::set<GrantId> released;               // by their clients
  std::set<GrantId> forced, refused, told;  // told: to ask again, by SetCapacity()

 private:
  struct Hold {
    Caller caller;
    base::Instant expires;
    uint32_t permits;
  };
  using Kind = BidAnswer::Kind;

  Answer Perform(const Caller& caller, const Send& send, base::Instant at) {
    Tick(at);
    const auto mine = holds_.find(send.grant);
    const bool held = mine != holds_.end();
    if (send.operation == Operation::kAcquire) return Acquire(caller, send.bid);
    if (send.operation == Operation::kRenew) {
      if (!held) return {.kind = Answer::Kind::kNotHeld};
      mine->second.expires = std::max(mine->second.expires, at + send.lease);
      return {.kind = Answer::Kind::kHeld};
    }
    const bool cancels = send.operation == Operation::kCancel;
    if (held) {
      holds_.erase(mine);
      if (!cancels) released.insert(send.grant);
    } else {
      waiters_.erase(send.grant);
    }
    if (send.tombstone) gone_[send.grant] = buried_[send.grant] = at + send.lease;
    Settle(nullptr);
    return {.kind = cancels ? Answer::Kind::kCancelled
                    : held  ? Answer::Kind::kReleased
                            : Answer::Kind::kNotHeld};
  }

  void Tick(base::Instant at) {
    now_ = at;
    look_ = absl::ZeroDuration();
    unfinished_ = missed_ = false;
    std::erase_if(gone_, [&](const auto& each) { return each.second <= at; });
    std::erase_if(holds_, [&](const auto& each) { return each.second.expires <= at; });
    if (queue_expires_ <= at) waiters_.clear();
  }
  void Tell(int client, Message message) {
    message.client = client;
    if (subscribed[client]) messages.push_back(message);
  }
  int64_t Free() const {
    int64_t free = *capacity;
    for (const auto& [grant, each] : holds_) free -= each.permits;
    return free;
  }

  Answer Acquire(const Caller& caller, const Bid& bid) {
    if (gone_.contains(bid.grant))
      return {.kind = Answer::Kind::kBid, .bid = {.kind = Kind::kGone}};
    const uint32_t actual = capacity.value_or(bid.terms.capacity);
    if ((actual != bid.terms.capacity && !set_) || bid.block > actual) {
      refused.insert(bid.grant);
      return {.failure = absl::FailedPreconditionError("refused")};
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
      request.ticket = static_cast<uint64_t>(now_.nanos() / 1000);
      for (const auto& [grant, record] : waiters_) {
        request.ticket = std::max(request.ticket, record.ticket + 1);
      }
    }
    Settle(&request);
    if (holds_.contains(bid.grant)) return Granted(bid.terms.lease);
    return {.kind = Answer::Kind::kBid, .bid = StayOut(request)};
  }
  static Answer Granted(absl::Duration lease) {
    return {.kind = Answer::Kind::kBid, .bid = {.kind = Kind::kGranted, .lease = lease}};
  }

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
    std::vector<Waiting> line;
    for (const auto& [grant, each] : waiters_) {
      if (!request || grant != request->bid.grant) line.push_back(each);
    }
    if (stands) line.push_back(*request);
    std::sort(line.begin(), line.end(), [](const Waiting& a, const Waiting& b) {
      return std::pair(a.ticket, a.bid.grant) < std::pair(b.ticket, b.bid.grant);
    });

    std::vector<Waiting> late;
    const bool whole = waiters_.size() < window;
    size_t seen = 0;
    for (const Waiting& each : line) {
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
    const absl::Duration lasting = asks ? bid.terms.lease : std::min(claim, bid.terms.lease);
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
    if (!request.bid.wait) return {.kind = Kind::kBusy, .retry_after = retry_after};

    if (waiters_.empty()) queue_expires_ = now_;
    waiters_[request.bid.grant] = request;
    queue_expires_ = std::max(queue_expires_, now_ + 3 * heartbeat);
    int64_t position = 0;
    for (const auto& [grant, each] : waiters_) position += each.ticket < request.ticket ? 1 : 0;
    return {.kind = Kind::kQueued,
            .retry_after = retry_after,
            .position = position,
            .ticket = request.ticket};
  }

  base::Instant now_;
  absl::Duration look_;  // the notes of the present answer
  bool unfinished_ = false;
  bool missed_ = false;
  bool set_ = false;  // the capacity, by SetCapacity()
  std::map<GrantId, Hold> holds_;
  std::map<GrantId, Waiting> waiters_;
  base::Instant queue_expires_;
  std::map<GrantId, base::Instant> gone_;
  std::map<GrantId, base::Instant> buried_;  // all tombstones that ever were
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_SEMAPHORE_SERVER_H_
