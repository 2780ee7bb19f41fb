#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_READ_WRITE_SERVER_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_READ_WRITE_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/unit/engine/machine/reference_server.h"

namespace redlatch::engine {

// What the Lua scripts of one read-write lock do.
class ReferenceReadWriteServer final : public ReferenceServer {
 public:
  static constexpr absl::Duration kLongestHeartbeat = absl::Seconds(2);

  // What a machine has here.
  bool Has(int machine, base::Instant at) const {
    for (const auto* holds : {&writes_, &reads_}) {
      for (const auto& [grant, each] : *holds) {
        if (each.caller.machine == machine && at < each.expires) return true;
      }
    }
    return false;
  }
  std::vector<std::pair<GrantId, int>> Known(base::Instant at) override {
    Tick(at);
    std::vector<std::pair<GrantId, int>> known;
    for (const auto* holds : {&writes_, &reads_}) {
      for (const auto& [grant, each] : *holds) known.emplace_back(grant, each.caller.client);
    }
    for (const auto& [grant, each] : waiters_) known.emplace_back(grant, each.caller.client);
    return known;
  }
  bool HasWaiters(base::Instant at) {
    Tick(at);
    return !waiters_.empty();
  }
  // Whether a reader that asked at that step got in by this hold before a writer that was queued by
  // then; or by an answer older than its question, which cannot know of such a writer. It counts
  // what was so when the server let readers in: a writer may have been overdue, and so passed over,
  // and be back by the time the reader hears that.
  bool PassedWriter(GrantId grant, uint64_t asked) const {
    const auto found = let_in_.find(grant);
    return found == let_in_.end() || found->second.step < asked || found->second.writer < asked;
  }

  uint64_t steps = 0;  // orders what waits among what the test does

 private:
  struct Hold {
    Caller caller;
    base::Instant expires;
    uint64_t token = 0;
  };
  struct Record {
    Caller caller;
    Bid bid;
    uint64_t ticket = 0;
    base::Instant overdue;
    base::Instant dropped;  // when its queue expires
    uint64_t since = 0;     // the step
  };
  struct LetInAt {
    uint64_t step = 0;
    uint64_t writer = 0;  // since when the first of those waited that readers may not pass
  };

  void Lapse() override {
    std::erase_if(reads_, [&](const auto& each) { return each.second.expires <= now_; });
    std::erase_if(waiters_, [&](const auto& each) { return each.second.dropped <= now_; });
    if (!writes_.empty()) wrote_ = ++steps;
    // The policy ends with its key.
    if (std::erase_if(writes_, [&](const auto& each) { return each.second.expires <= now_; }) > 0 &&
        writes_.empty()) {
      fair_ = false;
    }
  }

  Answer Perform(const Caller& caller, const Send& send) override {
    auto& holds = HoldsOf(caller);
    const auto mine = holds.find(send.grant);
    const bool held = mine != holds.end();
    if (const auto* acquire = std::get_if<ToAcquire>(&send.what)) {
      return {.what = Acquire(caller, acquire->bid)};
    }
    if (std::holds_alternative<ToRenew>(send.what)) {
      if (!held) return {.what = NotHeld()};
      mine->second.expires = std::max(mine->second.expires, now_ + send.lease);
      if (Reads(caller) && Others() == 0) NoteLetIn(send.grant);  // further threads may join
      if (Reads(caller)) return {.what = StillHeld{.others = Others()}};
      if (!MayStay(send.grant)) return {.what = StillHeld()};
      const auto ends = static_cast<uint64_t>(mine->second.expires.nanos() / 1000);
      return {.what = StillHeld{.others = static_cast<int64_t>(waiters_.size()),
                                .last_token = fence_.Extend(send, ends)}};
    }
    const bool writes = held && caller.side == Side::kWrite;
    if (std::holds_alternative<ToRelease>(send.what)) {
      if (writes) fence_.GiveBack(send);
    } else if (const uint32_t block = As<ToCancel>(send).block;
               writes && block > 1 && fence_.last == mine->second.token + block - 1) {
      fence_.last -= block;
    }
    return End(caller, send, held);
  }

  static bool Reads(const Caller& caller) { return caller.side != Side::kWrite; }
  std::map<GrantId, Hold>& HoldsOf(const Caller& caller) {
    return Reads(caller) ? reads_ : writes_;
  }
  bool WritersWait() const {
    return std::any_of(waiters_.begin(), waiters_.end(),
                       [](const auto& each) { return !Reads(each.second.caller); });
  }
  int64_t Others() const { return !writes_.empty() || WritersWait() ? 1 : 0; }

  void Drop(GrantId grant) { waiters_.erase(grant); }
  void Drop(const std::vector<Record>& records) {
    for (const Record& record : records) Drop(record.bid.grant);
  }

  BidGranted Granted(const Caller& caller, GrantId grant) {
    const Hold& mine = HoldsOf(caller).at(grant);
    const bool reads = Reads(caller);
    return BidGranted{.token = reads ? fence_.last : mine.token,
                      .lease = mine.expires - now_,
                      .others = reads ? Others() : static_cast<int64_t>(waiters_.size())};
  }

  void NoteLetIn(GrantId grant) {
    LetInAt& at = let_in_[grant] = {++steps, std::numeric_limits<uint64_t>::max()};
    for (const auto& [each, record] : waiters_) {
      // One whose heartbeat is overdue counts as dead, and a phase-fair write ends in favour of the
      // readers that waited for it.
      if (Reads(record.caller) || record.overdue < now_) continue;
      if (!fair_ || wrote_ < record.since) at.writer = std::min(at.writer, record.since);
    }
  }

  void Take(const Record& record, absl::Duration lease) {
    const Bid& bid = record.bid;
    Drop(bid.grant);
    Hold grant{record.caller, now_ + lease, 0};
    if (Reads(record.caller)) {
      reads_.insert_or_assign(bid.grant, grant);
      NoteLetIn(bid.grant);
      return;
    }
    if (writes_.empty()) fair_ = record.caller.fair;
    grant.token = fence_.Reserve(bid.block, static_cast<uint64_t>(now_.nanos() / 1000));
    writes_.insert_or_assign(bid.grant, grant);
    wrote_ = ++steps;
  }

  BidAnswer Acquire(const Caller& caller, const Bid& bid) {
    if (IsBuried(bid.grant)) return BidGone();
    missed_ = bid.attempt > 1 && !waiters_.contains(bid.grant);
    auto& holds = HoldsOf(caller);
    if (const auto mine = holds.find(bid.grant); mine != holds.end()) {
      Hold& grant = mine->second;
      missed_ = bid.attempt > 1;
      if (!bid.terms.manual) grant.expires = std::max(grant.expires, now_ + LeaseOf(bid));
      Drop(bid.grant);
      if (Reads(caller)) {
        Turn(nullptr);
        look_ = absl::ZeroDuration();  // it reads itself
      }
      return Granted(caller, bid.grant);
    }
    Record request{caller, bid, bid.ticket, {}, {}};
    const auto known = waiters_.find(bid.grant);
    if (known != waiters_.end()) {
      const Record& record = known->second;
      request.ticket = bid.ticket == 0 ? record.ticket : std::min(bid.ticket, record.ticket);
      request.bid.attempt = std::max(bid.attempt, record.bid.attempt);
      request.since = record.since;
    } else if (bid.ticket == 0) {
      request.ticket = static_cast<uint64_t>(now_.nanos() / 1000);
      for (const auto& [grant, record] : waiters_) {
        if (Reads(record.caller) != Reads(caller)) continue;
        request.ticket = std::max(request.ticket, record.ticket + 1);
      }
    }
    return Turn(&request);
  }

  // Ends a hold, or takes it off the queue, and passes the lock on.
  Answer End(const Caller& caller, const Send& send, bool held) {
    if (held) {
      HoldsOf(caller).erase(send.grant);
    } else {
      Drop(send.grant);
    }
    BidAnswer next;
    if (const Bid* const bid = send.bid(); held && bid != nullptr) next = Acquire(caller, *bid);
    const bool behind =
        std::holds_alternative<BidUnmade>(next) || std::holds_alternative<BidGone>(next);
    // While others read on and a writer waits it is nobody's turn.
    const bool nobodys =
        Reads(caller) && writes_.empty() && !reads_.empty() && WritersWait() && !fair_;
    if (behind && !nobodys) Turn(nullptr);
    if (std::holds_alternative<ToCancel>(send.what)) return {.what = Cancelled()};
    if (!held) return {.what = NotHeld()};
    return {.what = Freed{next}};
  }

  // Whose turn it is, and what that means for who asks.
  BidAnswer Turn(const Record* request) {
    to_tell_.clear();
    BidAnswer answer;
    const bool joins = !writes_.empty() ? request != nullptr && JoinsWriter(request->caller)
                                        : ChooseUnwritten(request);
    if (joins) {
      Take(*request, LeaseOf(request->bid));
    } else if (request != nullptr) {
      answer = StayOut(*request);
    }
    if (writes_.empty()) fair_ = false;
    if (joins) {
      answer = Granted(request->caller, request->bid.grant);
      look_ = absl::ZeroDuration();
    }
    for (const Record& record : to_tell_) {
      const BidGranted news = Granted(record.caller, record.bid.grant);
      Tell(record.caller.client, {.news = {.grant = record.bid.grant,
                                           .attempt = record.bid.attempt,
                                           .token = news.token,
                                           .claim = ClaimOf(record.bid),
                                           .others = news.others}});
    }
    return answer;
  }

  // Somebody writes.
  bool JoinsWriter(const Caller& caller) const {
    if (Reads(caller)) return writes_.size() == 1 && writes_.contains(caller.under);
    return caller.client == writes_.begin()->second.caller.client && reads_.empty();
  }

  void LetIn(const Record& record) {
    Take(record, ClaimOf(record.bid));
    look_ = std::max(look_, ClaimOf(record.bid));
    to_tell_.push_back(record);
  }
  void LetIn(const std::vector<Record>& records) {
    for (const Record& record : records) LetIn(record);
  }

  // Nobody writes: lets in others, and answers whether the request joins.
  bool ChooseUnwritten(const Record* request) {
    const bool reading = request != nullptr && Reads(request->caller);
    const bool stands =
        request != nullptr && (request->bid.wait || waiters_.contains(request->bid.grant));
    std::optional<Record> writer;  // the first live one
    std::vector<Record> readers, late_readers, dead_readers, late_writers, dead_writers;
    for (const Record& record : InTurn(waiters_, request, stands)) {
      const bool asks = request != nullptr && record.bid.grant == request->bid.grant;
      const bool reads = Reads(record.caller);
      if (!reads && writer) continue;
      if (!asks && !subscribed[record.caller.client]) {
        (reads ? dead_readers : dead_writers).push_back(record);
      } else if (!asks && record.overdue < now_) {
        (reads ? late_readers : late_writers).push_back(record);
      } else if (!reads) {
        writer = record;
      } else if (!asks) {
        readers.push_back(record);
      }
    }

    const bool free = reads_.empty();
    if (fair_) {
      Drop(dead_readers);
      if (!readers.empty() || (reading && stands)) {
        LetIn(readers);
        Drop(late_readers);
        return reading && (stands || !WritersWait());
      }
    }
    first_writer_overdue_ = base::Instant();
    if (request != nullptr && !reading && !free) return false;
    Drop(dead_writers);
    if (writer) {
      first_writer_overdue_ = writer->overdue;
      if (!free) return false;
      Drop(late_writers);
      if (request != nullptr && writer->bid.grant == request->bid.grant) return true;
      LetIn(*writer);
      return false;
    }
    Drop(dead_readers);
    if (!readers.empty() || (reading && stands)) {
      LetIn(readers);
      Drop(late_readers);
      Drop(late_writers);
      return reading;
    }
    if (!late_writers.empty()) {
      if (!free) return reading;
      LetIn(late_writers.front());
      return false;
    }
    LetIn(late_readers);
    return reading || (request != nullptr && free && late_readers.empty());
  }

  // Whoever may keep what keeps others out.
  void Call(const std::map<GrantId, Hold>& holds) {
    for (const auto& [grant, hold] : holds) {
      if (MayStay(grant)) Tell(hold.caller.client, {.wanted = true, .news = {.grant = grant}});
    }
  }

  BidAnswer StayOut(const Record& request) {
    const bool reads = Reads(request.caller);
    base::Instant until = base::Instant::Infinite();
    if (!writes_.empty()) {
      until = base::Instant();
      for (const auto& [grant, each] : writes_) until = std::max(until, each.expires);
    }
    if (!reads) {
      for (const auto& [grant, each] : reads_) until = std::min(until, each.expires);
    } else if (writes_.empty()) {
      until = std::max(now_, first_writer_overdue_);
    }
    if (until.is_infinite()) until = now_;
    const absl::Duration retry_after = absl::Ceil(until - now_, absl::Milliseconds(1));
    if (request.bid.wait || request.bid.calls) {
      Call(writes_);
      if (!reads) Call(reads_);
    }
    if (!request.bid.wait) return BidBusy();

    const absl::Duration heartbeat = HeartbeatInterval(request.bid.terms.lease, kLongestHeartbeat);
    Record& record = waiters_[request.bid.grant] = request;
    record.overdue = now_ + heartbeat * 5 / 2;
    if (record.since == 0) record.since = ++steps;
    int64_t position = 0;
    for (auto& [grant, each] : waiters_) {
      if (Reads(each.caller) != reads) continue;
      each.dropped = std::max(each.dropped, now_ + heartbeat * 3);
      position += each.ticket < record.ticket ? 1 : 0;
    }
    return BidQueued{.retry_after = retry_after, .position = position, .ticket = record.ticket};
  }

  base::Instant first_writer_overdue_;  // while it decides: of the writer that keeps readers out
  std::map<GrantId, Hold> writes_;      // of one client
  Fence fence_;
  std::map<GrantId, Hold> reads_;
  std::map<GrantId, Record> waiters_;
  std::map<GrantId, LetInAt> let_in_;  // readers, when they were let in last
  bool fair_ = false;                  // the policy of who writes
  uint64_t wrote_ = 0;                 // the step at which somebody last wrote
  std::vector<Record> to_tell_;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_READ_WRITE_SERVER_H_
