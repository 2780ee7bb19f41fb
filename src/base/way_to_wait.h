#ifndef REDLATCH_SRC_BASE_WAY_TO_WAIT_H_
#define REDLATCH_SRC_BASE_WAY_TO_WAIT_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "src/base/atomic.h"

namespace redlatch::base {

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
  Atomic<Way> way_{kEager};
  double average_[2] = {0, 0};  // cost in ns, by way
  bool changing_ = true;        // the next sample belongs to both ways, and is not counted
  bool probing_ = false;
  int samples_ = 0;  // of this probe, or since the last
  int interval_;
  Way settled_ = kEager;
  double settled_average_ = 0;  // that of `settled_`, when it was chosen
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_WAY_TO_WAIT_H_
