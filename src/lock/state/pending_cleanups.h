#ifndef REDLATCH_SRC_LOCK_STATE_PENDING_CLEANUPS_H_
#define REDLATCH_SRC_LOCK_STATE_PENDING_CLEANUPS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/lock/state/request.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

// The pending cleanups of one client for one lock: grants to release and acquires to cancel. Each
// is repeated until the server has answered, or until nothing of it can be left there.
//
//   a cleanup is  and                                  then
//   due           Next() returns its request           in flight
//   in flight     is postponed before it is sent       due
//   in flight     is answered                          settled
//   in flight     is refused for good                  settled: kRefused
//   in flight     goes unanswered, or must wait        due, after a back-off
//   due again     is over at the server                settled: kLost
//   settled       belongs to a hold                    kept until Outcome(), or Forget()
//   settled       belongs to no hold                   gone
//
// Not thread-safe.
class PendingCleanups {
 public:
  struct PendingCleanup {
    Request request;         // a ReleaseRequest or a CancelRequest
    uint64_t hold = 0;       // the hold whose release it is, while a caller may ask for the outcome
    base::Instant deadline;  // the grant's, when it was released
    base::Instant expires;   // the server has forgotten the grant from then on
    base::Instant due;
    bool releases = false;  // it ends a thread's hold, so its outcome is counted
    Released outcome = {};

    // The rest is for PendingCleanups.
    bool in_flight = false;
    bool postponed = false;  // a driver will ask for it
    bool tried_once = false;
    bool uncertain = false;  // an attempt went unanswered, and may have been executed
    bool silent = false;     // the latest attempt went unanswered
    bool refused = false;    // the server refused it for now
    bool settled = false;
    uint32_t failures = 0;
  };

  PendingCleanups() = default;
  PendingCleanups(const PendingCleanups&) = delete;
  PendingCleanups& operator=(const PendingCleanups&) = delete;

  bool empty() const { return cleanups_.empty(); }
  // Returns true if all are in flight for the first time, so that results should come soon.
  bool fresh() const;
  void Add(PendingCleanup cleanup) { cleanups_.push_back(std::move(cleanup)); }
  // Returns true if a release is not confirmed after which the lock stays taken.
  bool stays_taken() const;
  // Reserves memory for one more.
  void MakeRoom() { cleanups_.reserve(cleanups_.size() + 1); }
  void DropRoom() {
    if (cleanups_.empty()) std::vector<PendingCleanup>().swap(cleanups_);
  }
  // Returns true if a cleanup of that grant is pending.
  bool Has(GrantId grant) { return Find(grant) != nullptr; }
  // The grant's lease was renewed: it stays at the server until then.
  void Prolong(GrantId grant, base::Instant expires);

  struct Due {
    Request request;
    bool first;  // it is the first attempt
  };
  // The next request that is due.
  std::optional<Due> Next(base::Instant now);
  // The next release that is due and belongs to no hold.
  std::optional<Due> NextUnasked(base::Instant now);
  // The release of that hold, if it is due.
  std::optional<Due> NextOf(uint64_t hold, base::Instant now);
  // The fetched release of that hold is not sent now. NextOf() returns it again for a later driver.
  // Until then, due() ignores it, but Next() returns it, so that no acquire overtakes it.
  void Postpone(uint64_t hold);
  // When Next() returns a request, if nothing happens before.
  base::Instant due() const;
  void OnResult(const Request& request, const Result& result, base::Instant now, Effects& effects);
  // The server answers: what it has not refused becomes due. Returns true if any request is in
  // flight.
  bool Hurry(base::Instant now);
  // Requests in flight may be lost: all become due at that time.
  void RepeatAll(base::Instant due);

  // A caller releases the hold again: the release becomes due unless it is in flight. Returns what
  // is known, or nothing if no release of the hold is.
  std::optional<Released> Repeat(uint64_t hold, base::Instant now);
  // The outcome of a release. It is forgotten unless it is still in flight.
  Released Outcome(uint64_t hold);
  // No caller will ask for the outcome.
  void Forget(uint64_t hold);

  // Releases of holds: those in flight, and those that failed.
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
  static bool IsDue(const PendingCleanup& cleanup, base::Instant now);
  bool IsOver(const PendingCleanup& cleanup, base::Instant now) const;
  static Due Start(PendingCleanup& cleanup, base::Instant now);

  std::vector<PendingCleanup> cleanups_;
  uint64_t failed_ = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_PENDING_CLEANUPS_H_
