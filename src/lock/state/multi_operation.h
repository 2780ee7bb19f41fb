#ifndef REDLATCH_SRC_LOCK_STATE_MULTI_OPERATION_H_
#define REDLATCH_SRC_LOCK_STATE_MULTI_OPERATION_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/random.h"

namespace redlatch::internal {

// One call that wants several locks which no script can take together: all of them, or none.
//
//   phase         does                           until
//   pausing       sleeps, at first not at all    its time comes
//   taking        takes lock after lock          all are taken and held (done), or one is refused
//   giving back   releases what it has taken     nothing is taken (done, or another round follows)
//
// Locks of one client are taken in an order that all programs share, so each is waited for while
// those before it are held. Locks of several clients have no such order, since one server may have
// several names. So only the first lock of a round is waited for, while none is held, and the
// others are tried; the next round begins with the lock that was refused.
class MultiOperation {
 public:
  struct Action {
    enum class Kind : uint8_t {
      kTake,      // acquire `lock`, waiting until then; Resume() with the outcome
      kGiveBack,  // release `lock`; Resume()
      kSleep,     // until then; Resume()
      kDone,      // see outcome()
    };
    Kind kind = Kind::kDone;
    size_t lock = 0;
    base::Instant until;
  };

  MultiOperation(size_t locks, bool ordered, base::Instant deadline)
      : locks_(locks), ordered_(ordered), deadline_(deadline) {}

  // `outcome` is that of kTake, and `holds` returns whether a lock that was taken is still held.
  Action Resume(absl::Status outcome, absl::FunctionRef<bool(size_t)> holds, bool stopped,
                base::Instant now);
  const absl::Status& outcome() const { return outcome_; }

 private:
  enum class Phase : uint8_t { kPausing, kTaking, kGivingBack };

  size_t At(size_t i) const { return (first_ + i) % locks_; }
  void Decide(bool stopped, base::Instant now);

  const size_t locks_;
  const bool ordered_;
  const base::Instant deadline_;
  // The pauses are short because a round waits for the lock that was refused.
  base::Backoff backoff_{absl::Milliseconds(1), absl::Milliseconds(50)};
  Phase phase_ = Phase::kPausing;
  size_t first_ = 0;  // where a round begins
  size_t taken_ = 0;
  size_t refused_ = 0;
  bool again_ = false;  // another round may succeed
  base::Instant again_at_;
  absl::Status outcome_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_MULTI_OPERATION_H_
