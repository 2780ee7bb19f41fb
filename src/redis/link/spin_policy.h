#ifndef REDLATCH_SRC_REDIS_LINK_SPIN_POLICY_H_
#define REDLATCH_SRC_REDIS_LINK_SPIN_POLICY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/way_to_wait.h"

namespace redlatch::redis {

// How the threads of a connection wait for replies: *eagerly*, looking again and again for a moment
// and giving way to each other in between, before they sleep; or *patiently*, asleep at once.
//
// Which is faster depends on things no program can see: whether the server is near, whether its
// processor sleeps, whether others compete for this one (who gives way then comes back late). So
// it is measured: for one thread alone by the time of its calls, and once more that of looks which
// found nothing; for a crowd by the time from answer to answer, which is what a crowd is slow or
// fast in.
//
// Any thread may ask; whoever leads the connection tells.
class SpinPolicy {
 public:
  // `length`: how long one thread alone is eager, at most; zero: never.
  explicit SpinPolicy(absl::Duration length) : length_(length) {}

  // How long to look before sleeping, in this wait; zero: not at all.
  absl::Duration Length() const;

  // Whether several threads take turns: they give way to each other between looks. One alone does
  // not: who gives way may come back a time slice late, and the server hardly needs this processor.
  bool crowded() const { return crowd() > 1.5; }

  // So many callers have their answers by one read.
  void Received(size_t replies);

  // A thread leads from here on.
  void Begun() { in_vain_ = absl::ZeroDuration(); }

  // Its look, which was so long, has found nothing. It is charged twice: others may have wanted the
  // processor, and the server may be one of them.
  void InVain(absl::Duration length) {
    if (!crowded()) in_vain_ += length;
  }

  // The leader's own call has its reply.
  void Completed(base::Instant begun, base::Instant now);

 private:
  double crowd() const { return crowd_.load(std::memory_order_relaxed); }

  const absl::Duration length_;
  std::atomic<double> crowd_{1};  // callers whom one read answers, smoothed
  base::WayToWait alone_{base::WayToWait::Options{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
  base::WayToWait in_crowd_{
      base::WayToWait::Options{.probe = 3, .interval = 16, .weight = 1.0 / 4}};
  absl::Duration in_vain_;  // of the thread that leads
  size_t replies_ = 0;      // since `counted_from_`
  base::Instant counted_from_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SPIN_POLICY_H_
