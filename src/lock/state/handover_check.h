#ifndef REDLATCH_SRC_LOCK_STATE_HANDOVER_CHECK_H_
#define REDLATCH_SRC_LOCK_STATE_HANDOVER_CHECK_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "src/base/clock.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

// Checks whether a lock that was handed over by message was taken. A check is a cancel of an
// acquire that was never made: it changes nothing, unless the new owner is frozen or unsubscribed;
// then it passes the lock on. One check is in flight at a time. Of later ones only the latest is
// kept, since all claims are over by then.
//
// Each check has a grant id of its own, from `fresh`. Not thread-safe.
class HandoverCheck {
 public:
  using Fresh = absl::FunctionRef<GrantId()>;

  bool none() const { return grant_ == 0; }
  // Schedules a check.
  void Add(base::Instant due, Fresh fresh);
  // Schedules a check for now that no other replaces, and perhaps another one at `then`.
  void AddAtOnce(base::Instant now, base::Instant then, Fresh fresh);
  void Clear() { grant_ = 0; }

  std::optional<Request> Next(base::Instant now);
  // When Next() returns a request, if nothing happens before.
  base::Instant due() const;
  // Returns true if the request was a check.
  bool OnResult(const Request& request, const Result& result, base::Instant now, Fresh fresh);

 private:
  GrantId grant_ = 0;  // 0 if there is none
  base::Instant due_;
  base::Instant then_ = base::Instant::Infinite();  // when the following one is due
  bool in_flight_ = false;
  uint32_t failures_ = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_HANDOVER_CHECK_H_
