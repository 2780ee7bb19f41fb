#ifndef REDLATCH_SRC_LOCK_STATE_HANDOVER_CHECK_H_
#define REDLATCH_SRC_LOCK_STATE_HANDOVER_CHECK_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "src/base/clock.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

// Looks: whether a lock that was handed over by message was taken. A look is a cancel of a bid that
// nobody made: it changes nothing but a lock whose new owner is frozen or deaf, which it passes on.
// One is asked at a time; of those to come, the latest is kept, since by then all claims are over.
//
// Each look is asked under a number of its own, `fresh`. Not thread-safe.
class HandoverCheck {
 public:
  using Fresh = absl::FunctionRef<GrantId()>;

  bool none() const { return grant_ == 0; }
  // One is due then.
  void Add(base::Instant due, Fresh fresh);
  // One is due now, which no other stands for, and perhaps another one `then`.
  void AddAtOnce(base::Instant now, base::Instant then, Fresh fresh);
  void Clear() { grant_ = 0; }

  std::optional<Request> Next(base::Instant now);
  // When Next() has one, if nothing happens before.
  base::Instant due() const;
  // Whether that was the answer to a look.
  bool OnResult(const Request& request, const Result& result, base::Instant now, Fresh fresh);

 private:
  GrantId grant_ = 0;  // 0: there is none
  base::Instant due_;
  base::Instant then_ = base::Instant::Infinite();  // when the next one is due
  bool in_flight_ = false;
  uint32_t failures_ = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_HANDOVER_CHECK_H_
