// Watches what the threads of all clients get, and finds the first broken promise.
#ifndef REDLATCH_TESTS_SIM_WORLD_ORACLE_H_
#define REDLATCH_TESTS_SIM_WORLD_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/os/kernel.h"

namespace redlatch::sim {

class Oracle {
 public:
  enum class Mode : uint8_t { kExclusive, kShared, kPermits };

  // Records when the holder is told of its loss.
  struct LossTime {
    LossTime(const Kernel& kernel, const std::stop_token& lost, std::function<void()> then)
        : fires(lost, [this, &kernel, then = std::move(then)] { at = kernel.now(), then(); }) {}
    int64_t at = kNever;
    std::stop_callback<std::function<void()>> fires;
  };

  // A call that asks for one or several objects at once.
  struct Request {
    std::vector<std::string> names;
    Process* process = nullptr;
    Mode mode = Mode::kExclusive;
    uint64_t owner = 0;
    int64_t permits = 0;
    int64_t capacity = 0;
    bool capacity_varies = false;
    bool in_steps = false;             // it may have some of the names already
    int64_t leaves_at = kNever;        // its caller's wait is over then, or is stopped
    int64_t since = 0;                 // set by Asked()
    int64_t may_enter_since = kNever;  // since when nothing has kept it out
  };

  struct Hold {
    std::string name;
    Mode mode = Mode::kExclusive;
    int64_t permits = 0;  // this and the next three: as in the request
    int64_t capacity = 0;
    Process* process = nullptr;
    uint64_t owner = 0;  // holds of one owner do not exclude each other
    uint64_t token = 0;  // 0: has none
    bool may_lack_token = false;
    bool counts_tokens = false;  // so they begin again if the counter is lost
    bool acknowledged = false;   // by all replicas
    bool quarantined = false;
    int64_t asked = 0;
    int64_t granted = 0;  // set by Granted()
    std::function<bool()> valid;
    std::function<absl::Duration()> remaining;
    bool passes_writers = false;  // reads that may do so, since the lock is phase-fair
    std::stop_token lost;
    int64_t stop_margin = 0;
    int64_t grace = 0;
    int64_t at_least = 0;                      // its name stays taken for that long
    bool reserves_tokens = false;              // so its grant may be older than the call
    bool keeps_others_out = false;             // even when `valid` may not say so any more
    bool reports = false;                      // `on_lost` is called for it
    std::shared_ptr<LossTime> told = nullptr;  // set by Granted(), and so is the next
    std::shared_ptr<LossTime> told_wanted = nullptr;
    std::stop_token wanted = {};  // without a state: it is not told of waiters
    bool reports_wanted = false;  // `on_wanted` is called for it
  };

  // The Owner that all clients share.
  static constexpr uint64_t kSharedOwner = 1;

  // `strict`: also demands what no lock over Redis can promise, to show what happens then.
  Oracle(Kernel& kernel, bool strict) : kernel_(kernel), strict_(strict) {}

  // A thread starts to ask, and stops asking.
  uint64_t Asked(Request request);
  void StoppedAsking(uint64_t request);
  // Nothing has happened for a while that could keep the request out, so it gets in at once.
  bool IsWelcome(uint64_t request);
  // The largest token of all acquisitions that are over.
  uint64_t LargestToken(const std::string& name) { return objects_[name].largest_token; }
  // `largest_before`: what LargestToken() returned when the call began.
  uint64_t Granted(Hold hold, uint64_t largest_before);
  void Leaving(uint64_t id);
  // The name of the hold stays taken for that long after its grant: surely if the server has said
  // so.
  void StaysTaken(uint64_t id, int64_t at_least, bool surely);
  // Its waiters are not served in the order in which they came.
  void Unordered(const std::string& name) { objects_[name].ordered = false; }
  void Died(Process* process);
  // The process has the object; has it, or waits for it; or did so until lately.
  bool Has(const Process* process, const std::string& name);
  bool HasOrWants(const Process* process, const std::string& name);
  bool Uses(const Process* process, const std::string& name);
  // Its client is gone, and reports nothing more.
  void Ended(const Process* process);
  // The client's callback reports the loss of the hold with that token, or that others want it.
  void TellsLoss(const Process* process, const std::string& name, uint64_t token);
  void TellsWanted(const Process* process, const std::string& name, uint64_t token);
  // The result must be called exactly once, by a callback of the client, within that time.
  std::function<void()> Expects(const Process* process, std::string what, int64_t within = kNever);
  // No exclusive hold older than this may be lost.
  void DemandLasting(int64_t age) { lasts_from_ = age; }

  // Latches. A count is sent, and then confirmed; a waiter is let through. A latch refuses more
  // counts than it was made for, so MayCount() limits how many start.
  void UsesLatch(const std::string& name) { latches_.try_emplace(name, Latch{kernel_.now()}); }
  bool MayCount(const std::string& name, int64_t count) {
    return latches_[name].begun < count && ++latches_[name].begun > 0;
  }
  void Counted(const std::string& name, const Process* process, int64_t count) {
    Latch& latch = latches_[name];
    ++latch.done_by[process];
    if (++latch.done == count) latch.open_since = kernel_.now();
    // The former primary may have got it; an idle client then repeats it at its next use.
    latch.counted_late |= kernel_.now() < repeats_counts_until_;
  }
  bool IsOpen(const std::string& name) { return latches_[name].open_since != kNever; }
  // It has been open since then, and for longer than a waiter may take to notice.
  bool HasBeenOpen(const std::string& name, int64_t since = 0) {
    return longest_idle_ < kernel_.now() - std::max(latches_[name].open_since, since);
  }
  void Opened(const std::string& name, int64_t count);
  // How many counts are confirmed now.
  int64_t ConfirmedCounts(const std::string& name) { return latches_[name].done; }
  // A latch reports to a process how many have counted, and `confirmed` had before it was asked.
  void CheckCounts(const std::string& name, const Process* process, int64_t counted,
                   int64_t confirmed);
  // Until then a server may lose counts, which living clients repeat; and, `for_good`, latches, and
  // counts that no client repeats.
  void LosesCounts(int64_t until, bool for_good);
  // The latch may have been forgotten, or lack counts, since it is older than a loss.
  bool MayLackCounts(const std::string& name) {
    const Latch& latch = latches_[name];
    return latch.counted_late || (uses_redisson_ ? 0 : latch.used_since) < loses_counts_until_;
  }
  void UseRedisson() { uses_redisson_ = true; }

  // A process observes an election, and sees changes; an epoch of 0 means that there is no leader.
  // A leader's value is its name and a number, which grows within its term.
  uint64_t Observes(Process* process, const std::string& name);
  void Saw(uint64_t observer, uint64_t epoch, const std::string& value);
  void ObservesNoMore(uint64_t observer) { observers_.erase(observer); }
  // A caller is told who leads. `largest_before`: as in Granted().
  void ToldLeader(const std::string& name, uint64_t epoch, const std::string& value,
                  uint64_t largest_before);
  void Leads(const std::string& name, uint64_t epoch, const std::string& leader);
  // Returns true if all observers know that term, or its end, or a later one.
  bool AllSaw(const std::string& name, uint64_t epoch, bool over) const;

  // From now on tokens may fall.
  void TokensMayFall() { tokens_grow_ = strict_; }
  // Until then the server may let in a second owner, and tokens may fall, because it has lost data.
  void LostData(int64_t until) {
    if (!strict_) unprotected_until_ = std::max(unprotected_until_, until);
    data_lost_ = true;
  }
  // The same, because a server has an older copy of its data, or none: readers may have the token
  // of an older write until the next one, even if replicas had acknowledged the lost writes.
  void LostWrites(int64_t until) {
    LostData(until);
    if (!strict_) lost_writes_until_ = std::max(lost_writes_until_, until);
  }
  // As LostData(), for these names only, after a forced release.
  void Forced(const std::vector<std::string>& names, int64_t until) {
    for (const std::string& each : names) {
      objects_[each].unprotected_until = until;
      objects_[each].forced_at = until == kNever ? kNever : kernel_.now();
      objects_[each].taken_until_token = 0;
      objects_[each].surely_taken_until = 0;
      objects_[each].closed_to_readers_until = 0;
      for (auto& [id, hold] : objects_[each].holds) hold.stop_margin = 0;
    }
  }
  // As LostData(), for a server whose replicas may lack its grants: for holds that replicas need
  // not confirm, or that no quarantine protects. Tokens still grow, but a client that had an object
  // may continue with its tokens. `keeps_latches`: the server has all latches, but it may lack
  // counts.
  void FailedOver(int64_t until, bool acks_protect, bool quarantine_protects, bool keeps_latches);
  // Waiting before that moment is not judged: for this object, or by this process.
  void Excuse(const std::string& name, int64_t until) {
    int64_t& its = objects_[name].excused_until;
    its = std::max(its, until);
  }
  void Excuse(const Process* process, int64_t until) {
    int64_t& its = process_excused_until_[process];
    its = std::max(its, until);
  }
  // For how long objects were held or wanted, and how much of that was judged.
  int64_t used() const { return used_; }
  int64_t judged() const { return judged_; }
  // How long an object may have waiters and no owner: usually; and soon after a fault, while
  // clients still find out what is lost.
  void SetLongestIdle(int64_t settled, int64_t longest) {
    settled_idle_ = settled;
    longest_idle_ = longest;
  }
  void CheckIdle();
  // A client may not be let in before one that came `margin` earlier, which may be overtaken at
  // most `most_overtaken` times.
  void JudgeOrder(int64_t margin, int most_overtaken) {
    order_margin_ = margin;
    most_overtaken_ = most_overtaken;
  }

  void Violated(const std::string& what);
  const std::string& violation() const { return violation_; }
  uint64_t grants() const { return grants_; }

 private:
  // The waiters of one process that ask for the same thing. When one of them comes or goes, their
  // request to the server may change, so it was queued between these times.
  struct Line {
    int waiters = 0;
    int64_t earliest = 0;
    int64_t latest = 0;
    int overtaken = 0;  // how many that came later were let in before it
  };
  // A waiter that was let in after a later one, unless both were let in at the same time and it is
  // about to be told.
  struct Passed {
    std::pair<Process*, Mode> who;
    int64_t since = 0;
    int64_t at = 0;
    std::string what;
  };
  struct Object {
    std::map<uint64_t, Hold> holds;
    std::map<std::pair<Process*, Mode>, Line> waiting;
    std::pair<Process*, Mode> latest;   // the last client that was let in
    int64_t latest_since = 0;           // since when no other client was let in
    int64_t latest_came = 0;            // when it had started to wait
    std::map<Process*, int64_t> turns;  // of a semaphore: since when a client lends its permits
    std::vector<Passed> passed;
    uint64_t largest_token = 0;
    int64_t written = 0;                  // when an exclusive hold was last granted
    std::map<Process*, int64_t> granted;  // the last time
    std::map<const Process*, int64_t> left;
    std::map<const Process*, int64_t> asks_from;  // after a loss
    bool ordered = true;
    int64_t idle_since = 0;
    int64_t excused_until = 0;
    int64_t unprotected_until = 0;
    int64_t forced_at = 0;  // the last time its release was forced
    // Until when the name stays taken: by the server's clock in us, which tokens show; at least,
    // for writers and for readers; and at most.
    uint64_t taken_until_token = 0;
    int64_t surely_taken_until = 0;
    int64_t closed_to_readers_until = 0;
    int64_t taken_until = 0;
  };
  struct Latch {
    int64_t used_since = 0;
    int64_t begun = 0;
    int64_t done = 0;
    std::map<const Process*, int64_t> done_by;
    bool counted_late = false;  // soon after a failover
    int64_t open_since = kNever;
  };
  struct Observer {
    Process* process = nullptr;
    std::string name;
    uint64_t epoch = 0;
    int64_t number = 0;
    bool over = true;
  };
  // Holds by process, name and token: when their stop token fired, and whether the callback ran.
  struct Report {
    int64_t fired = kNever;
    bool reported = false;
  };
  using Reports = std::map<std::tuple<const Process*, std::string, uint64_t>, Report>;
  bool Valid(const Hold& hold) const;
  bool KeepsOut(const Hold& hold) const { return hold.keeps_others_out || Valid(hold); }
  // Returns the number at the end of a leader's value.
  int64_t SawLeader(const std::string& name, uint64_t epoch, const std::string& value);
  void CheckExclusion(const Object& object, const Hold& fresh);
  void CheckMargin(const Hold& lost, const Hold& fresh);
  bool MayBeLost(const Hold& hold) const;
  void WatchDeadline(uint64_t id, bool over);
  void Lost(const Hold& hold);
  void Fired(Reports& reports, const Hold& hold);
  void Reported(Reports& reports, const Process* process, const std::string& name, uint64_t token,
                const char* callback);
  void CheckReports(const Reports& reports, const char* callback);
  bool MayEnter(const Object& object, const Request& request) const;
  bool MustEnter(const Request& request);
  void CheckRequests();
  void CheckReports();
  void CheckToken(const Object& object, const Hold& fresh, uint64_t largest_before);
  bool IsLeaving(const std::string& name, const Process* process, Mode mode) const;
  void NoteOrder(Object& object, const Hold& fresh);
  void CheckOrder(Object& object);
  bool IsWanted(const Object& object) const;
  void CheckTold(const Object& object);
  bool IsHeld(const Object& object) const;
  bool IsHeldInPart(const std::string& name) const;
  bool IsExcused(const Object& object) const { return kernel_.now() < object.excused_until; }
  // Returns true if what has gone on since then has lasted longer than it may.
  bool IsTooLong(const Object& object, int64_t since) const;
  int64_t ExcusedUntil(const Process* process) const {
    const auto found = process_excused_until_.find(process);
    return found == process_excused_until_.end() ? 0 : found->second;
  }
  // It runs, and nothing delays it.
  bool IsFit(const Process* process) const {
    return !process->paused && !process->suspended && ExcusedUntil(process) <= kernel_.now();
  }
  std::string Words(const Hold& hold) const;

  Kernel& kernel_;
  const bool strict_;
  bool tokens_grow_ = true;
  int64_t loses_counts_until_ = 0;
  int64_t repeats_counts_until_ = 0;
  bool uses_redisson_ = false;
  std::map<std::string, Object> objects_;
  std::map<std::string, Latch> latches_;
  std::map<uint64_t, Observer> observers_;
  std::map<std::pair<std::string, uint64_t>, std::string> leaders_;  // by election and epoch
  uint64_t next_ = 1;
  uint64_t grants_ = 0;
  std::map<uint64_t, std::string> names_;  // of holds
  std::map<uint64_t, Request> requests_;
  Reports lost_;
  Reports wanted_;
  struct Callback {
    const Process* process = nullptr;
    std::string what;
    int64_t due = 0;
  };
  std::map<uint64_t, Callback> callbacks_;  // that have not run
  bool data_lost_ = false;                  // so tokens may be given twice
  int64_t unprotected_until_ = 0;
  int64_t lost_writes_until_ = 0;
  int64_t lost_without_acks_until_ = 0;
  int64_t lost_without_quarantine_until_ = 0;
  int64_t lost_without_either_until_ = 0;
  std::map<const Process*, int64_t> process_excused_until_;
  int64_t used_ = 0;
  int64_t judged_ = 0;
  int64_t checked_ = 0;  // when CheckIdle() last ran
  int64_t settled_idle_ = kNever;
  int64_t longest_idle_ = kNever;
  int64_t lasts_from_ = kNever;
  int64_t order_margin_ = kNever;
  int most_overtaken_ = 0;
  std::string violation_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_ORACLE_H_
