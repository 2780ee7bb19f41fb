// What the machine does between two packets, which decides the cost of a round trip: a processor
// that sleeps must be woken by each of them.
#ifndef REDLATCH_BENCHMARKS_MOOD_H_
#define REDLATCH_BENCHMARKS_MOOD_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace redlatch::bench {

// Keeps all processors awake while it exists: one process per processor runs only when nothing else
// wants to.
class Awake {
 public:
  Awake();
  ~Awake();
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;

 private:
  std::vector<pid_t> spinners_;
};

// The median time that RawLock takes for a pair here and now, as text: "61 us".
std::string RawPairTime();

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_MOOD_H_
