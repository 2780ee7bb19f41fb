// What the machine does between two packets, which decides what a round trip costs: a processor
// that sleeps then has to be woken by each of them.
#ifndef REDLATCH_BENCHMARKS_MOOD_H_
#define REDLATCH_BENCHMARKS_MOOD_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace redlatch::bench {

// Keeps all processors from sleeping while it exists: one process for each, which runs only where
// nothing else wants to.
class Awake {
 public:
  Awake();
  ~Awake();
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;

 private:
  std::vector<pid_t> spinners_;
};

// The median of what RawLock takes and releases here and now, in words: "61 us".
std::string RawPairTime();

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_MOOD_H_
