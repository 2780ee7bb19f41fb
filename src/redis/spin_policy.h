#ifndef REDLATCH_SRC_REDIS_SPIN_POLICY_H_
#define REDLATCH_SRC_REDIS_SPIN_POLICY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::redis {

// Which of two ways to wait is the faster, found by trying: now and then a few samples are taken of
// the other way, and the cheaper one is kept. Being eager must pay by a tenth, since it costs
// processor time.
class WayToWait {
 public:
  enum Way : uint8_t { kPatient, kEager };

  struct Options {
    int probe;      // samples of the other way, the first of which is not counted
    int interval;   // samples between probes; doubles, up to 64 times, while nothing changes
    double weight;  // of one sample in the average
  };
  explicit WayToWait(Options options) : options_(options), interval_(options.interval) {}

  Way way() const { return way_.load(std::memory_order_relaxed); }  // any thread

  // What it has cost to wait in the present way.
  void Record(absl::Duration cost);

 private:
  void Take(Way way);
  void Decide();

  const Options options_;
  std::atomic<Way> way_{kEager};
  double average_[2] = {0, 0};  // cost in ns, by way
  bool changing_ = true;        // the next sample belongs to both ways, and is not counted
  bool probing_ = false;
  int samples_ = 0;  // of this probe, or since the last
  int interval_;
  Way settled_ = kEager;
  double settled_average_ = 0;  // that of `settled_`, when it was chosen
};

// How the threads of a channel wait for replies: *eagerly*, looking again and again for a moment
// and giving way to each other in between, before they sleep; or *patiently*, asleep at once.
//
// Which is faster depends on things no program can see: whether the server is near, whether its
// processor sleeps, whether others compete for this one (who gives way then comes back late). So
// it is measured: for one thread alone by the time of its calls; for a crowd by the time from
// answer to answer, which is what a crowd is slow or fast in.
//
// Any thread may ask; whoever leads the channel tells.
class SpinPolicy {
 public:
  // `length`: how long one thread alone is eager, at most; zero: never.
  explicit SpinPolicy(absl::Duration length) : length_(length) {}

  // How long to look before sleeping, in this wait; zero: not at all.
  absl::Duration Length() const;

  // Several threads use the channel at once and are eager: a leader lets the others speak before
  // it writes.
  bool GathersCrowd() const;

  // So many callers have their answers by one read.
  void Received(size_t replies);

  // The leader's own call has its reply.
  void Completed(base::Instant begun, base::Instant now);

 private:
  double crowd() const { return crowd_.load(std::memory_order_relaxed); }
  bool crowded() const { return crowd() > 1.5; }
  bool eager() const;

  const absl::Duration length_;
  std::atomic<double> crowd_{1};  // callers whom one read answers, smoothed
  WayToWait alone_{WayToWait::Options{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
  WayToWait in_crowd_{WayToWait::Options{.probe = 3, .interval = 16, .weight = 1.0 / 4}};
  size_t replies_ = 0;  // since `counted_from_`
  base::Instant counted_from_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SPIN_POLICY_H_
