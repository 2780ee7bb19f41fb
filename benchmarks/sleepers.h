// Handovers to a process that has slept for about 20 ms: of two processes, one has the lock while
// the other waits for it.
#ifndef REDLATCH_BENCHMARKS_SLEEPERS_H_
#define REDLATCH_BENCHMARKS_SLEEPERS_H_

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "benchmarks/process_race.h"

namespace redlatch::bench {

inline constexpr absl::Duration kSleepersHold = absl::Milliseconds(20);
// The pause before it wants the lock again. Without it, a lock that does not hand over would never
// change hands.
inline constexpr absl::Duration kSleepersPause = absl::Milliseconds(5);

inline RaceOptions SleepersRace(std::string racer) {
  return {.racer = std::move(racer), .processes = 2, .duration = absl::Seconds(5)};
}

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_SLEEPERS_H_
