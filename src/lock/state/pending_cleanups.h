#ifndef REDLATCH_SRC_LOCK_STATE_PENDING_CLEANUPS_H_
#define REDLATCH_SRC_LOCK_STATE_PENDING_CLEANUPS_H_

#include <cstdint>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/lock/state/effects.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

// What a client owes the server for one lock: grants to be released, bids to be cancelled. Each is
// repeated until the server has answered, or until nothing of it can be left there.
//
//   a debt is     and                                  then
//   due           Next() gives its script              in flight
//   in flight     is postponed before it is sent       due
//   in flight     is answered                          settled
//   in flight     is refused for good                  settled: kRefused
//   in flight     goes unanswered, or must wait        due, after a back-off
//   due again     is over at the server                settled: kLost
//   settled       is the release of a thread's hold    kept until Outcome(), or Forget()
//   settled       is nobody's                          gone
//
// Not thread-safe.
class PendingCleanups {
 public:
  struct PendingCleanup {
    Request request;         // ToRelease or ToCancel
    uint64_t hold = 0;       // whose release it is, while somebody may ask for its outcome
    base::Instant deadline;  // the grant's, when it was released
    base::Instant expires;   // from here on the server has forgotten it
    base::Instant due;
    bool releases = false;  // what a thread had: it is counted how that ends
    Released outcome = {};

    // The rest is for Debts.
    bool in_flight = false;
    bool postponed = false;  // a driver comes for it
    bool tried_once = false;
    bool uncertain = false;  // a try went unanswered: it may have been executed
    bool silent = false;     // the latest one did
    bool settled = false;
    uint32_t failures = 0;
  };

  PendingCleanups() = default;
  PendingCleanups(const PendingCleanups&) = delete;
  PendingCleanups& operator=(const PendingCleanups&) = delete;

  bool empty() const { return cleanups_.empty(); }
  // Each is under way for the first time: the server is about to answer, it seems.
  bool fresh() const;
  void Add(PendingCleanup cleanup) { cleanups_.push_back(std::move(cleanup)); }
  // One more is added then without asking for memory, of which there may be none (false).
  bool MakeRoom() noexcept try {
    cleanups_.reserve(cleanups_.size() + 1);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  void DropRoom() {
    if (cleanups_.empty()) std::vector<PendingCleanup>().swap(cleanups_);
  }
  // Whether anything is owed for that grant.
  bool Has(GrantId grant) { return Find(grant) != nullptr; }
  // The grant has its lease anew: it is at the server until then.
  void Prolong(GrantId grant, base::Instant expires);

  struct Due {
    Request request;
    bool first;  // it was not tried before
  };
  // The next script that is due.
  std::optional<Due> Next(base::Instant now);
  // The first that is due of the releases that no hold asks for.
  std::optional<Due> NextUnasked(base::Instant now);
  // The release of that hold, where it is due.
  std::optional<Due> NextOf(uint64_t hold, base::Instant now);
  // The release of that hold was fetched, and is not sent: NextOf() gives it again, for a driver
  // that comes later. Until then due() does not count it, but Next() has it, so that no acquire
  // request overtakes it.
  void Postpone(uint64_t hold);
  // When Next() has something, if nothing happens before.
  base::Instant due() const;
  void OnResult(const Request& request, const Result& result, base::Instant now, Effects& effects);
  // The server answers: what went unanswered is repeated now. Whether anything is on its way.
  bool Hurry(base::Instant now);
  // Whatever was under way may be lost: all are due then.
  void RepeatAll(base::Instant due);

  // A call that releases this hold again: what is known, and it is due now unless it is under way.
  // Nothing where no release of it is known.
  std::optional<Released> Repeat(uint64_t hold, base::Instant now);
  // What became of the release; forgets it unless it is under way.
  Released Outcome(uint64_t hold);
  // Nobody will ask for that any more.
  void Forget(uint64_t hold);

  // Releases of what threads had: under way, and failed.
  uint64_t releasing() const;
  uint64_t failed() const { return failed_; }

 private:
  PendingCleanup* Find(GrantId grant);
  PendingCleanup* FindOf(uint64_t hold);
  void Settle(PendingCleanup& cleanup, Released::Kind kind,
              absl::Status failure = absl::OkStatus());
  void Erase(const PendingCleanup& cleanup) {
    cleanups_.erase(cleanups_.begin() + (&cleanup - cleanups_.data()));
  }
  bool IsOver(const PendingCleanup& cleanup, base::Instant now) const;
  static Due Start(PendingCleanup& cleanup, base::Instant now);

  std::vector<PendingCleanup> cleanups_;
  uint64_t failed_ = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_PENDING_CLEANUPS_H_
