#ifndef REDLATCH_SRC_REDIS_LINK_SPIN_POLICY_H_
#define REDLATCH_SRC_REDIS_LINK_SPIN_POLICY_H_

#include <atomic>
#include <cstddef>

#include "absl/time/time.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/way_to_wait.h"

namespace redlatch::redis {

// How the threads of a connection wait for replies: *eagerly*, reading again and again for a moment
// and yielding to each other in between, or *patiently*, asleep at once.
//
// Which way is faster depends on conditions that a program cannot see: whether the server is near,
// whether its processor sleeps, whether other processes compete for this one (a thread that yields
// then comes back late). So it is measured. For a single thread, the measure is the time of its
// calls, plus once more the time that it spun in vain. For many callers, it is the time between
// replies.
//
// Any thread may ask for the length; only the leader reports.
class SpinPolicy {
 public:
  // `length`: how long a single thread spins at most; zero: never.
  explicit SpinPolicy(absl::Duration length) : length_(length) {}

  // How long to spin in this wait before sleeping; zero: not at all.
  absl::Duration Length() const;

  // True if many callers share the connection: they yield to each other while they spin. A single
  // thread does not yield: it may come back a time slice late, and the server hardly needs this
  // processor.
  bool many_callers() const { return callers_per_read() > 1.5; }

  // One read brought the replies of this many callers.
  void Received(size_t replies);

  // A thread has become the leader.
  void Begun() { in_vain_ = absl::ZeroDuration(); }

  // The leader spun for that long and read nothing. The time counts twice: another thread, or the
  // server, may have needed the processor.
  void InVain(absl::Duration length) {
    if (!many_callers()) in_vain_ += length;
  }

  // The leader's own call has its reply.
  void Completed(base::Instant begun, base::Instant now);

 private:
  double callers_per_read() const { return callers_per_read_.load(std::memory_order_relaxed); }

  const absl::Duration length_;
  base::Atomic<double> callers_per_read_{1};  // smoothed
  base::WayToWait alone_{base::WayToWait::Options{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
  base::WayToWait many_{base::WayToWait::Options{.probe = 3, .interval = 16, .weight = 1.0 / 4}};
  absl::Duration in_vain_;  // of the present leader
  size_t replies_ = 0;      // since `counted_from_`
  base::Instant counted_from_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SPIN_POLICY_H_
